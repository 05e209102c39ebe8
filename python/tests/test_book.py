"""The pages of docs/ are a book: all are listed, links lead somewhere, and the page of the Python API is that of the docstrings
(`VOXALIGN_WRITE_DOCS=1` writes it anew)."""

from __future__ import annotations

import ast
import inspect
import os
import re
import tomllib
from pathlib import Path

import pytest

import voxalign as vx
from voxalign import _native

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
#: In the tree, beside the pages of the book.
OTHERS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md", "python/README.md", "data/README.md")]

LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^()\s]+)\)")


def prose(page: Path) -> str:
    """A page without its blocks of code and what is quoted."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub and mdBook make them."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.*?) *#*$", text, flags=re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-")
        same = sum(1 for other in found if re.fullmatch(rf"{re.escape(name)}(-\d+)?", other))
        found.add(name if not same else f"{name}-{same}")
    return found


def test_every_page_is_in_the_summary() -> None:
    listed = re.findall(r"^ *- \[[^\]]+\]\(([^)]+)\)$", (DOCS / "SUMMARY.md").read_text(), flags=re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(listed) == {page.name for page in PAGES} - {"SUMMARY.md"}


def test_the_book_is_of_this_folder() -> None:
    book = tomllib.loads((DOCS / "book.toml").read_text())
    assert book["book"]["src"] == "." and book["book"]["title"] == "voxalign"


def broken(page: Path) -> list[str]:
    """Links that lead nowhere."""
    wrong = []
    for link in LINK.findall(prose(page)):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not re.match(r"[a-z]+:", link) and (not target.exists() or anchor and anchor not in anchors(target)):
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page: Path) -> None:
    assert broken(page) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_that_are_linked_to_are_in_the_book(page: Path) -> None:
    """mdBook makes `.html` of `.md`, also where no such page is made."""
    assert outside(page) == []


def outside(page: Path) -> list[str]:
    links = [link.partition("#")[0] for link in LINK.findall(prose(page)) if not re.match(r"[a-z]+:", link)]
    return [link for link in links if link.endswith(".md") and (page.parent / link).resolve().parent != page.parent.resolve()]


def test_links_out_of_the_book_are_found(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text("[a](a.md#b) [b](../README.md#c) [c](../crates/a.rs) [d](https://example.org/a.md)\n")
    assert outside(page) == ["../README.md"]


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text("# One `two` three\n\n[a](a.md#one-two-three) [b](none.md) [c](#four)\n\n```\n[d](none.md)\n```\n")
    assert broken(page) == ["none.md", "#four"]


# The page of the API.


def sections(docstring: str) -> tuple[str, dict[str, list[tuple[str, str]]]]:
    """What a docstring says at first, and its sections: what each has a name or a type for, and what is said of it."""
    parts = re.split(r"^(\w+)\n-+\n", docstring, flags=re.MULTILINE)
    found: dict[str, list[tuple[str, str]]] = {}
    for name, text in zip(parts[1::2], parts[2::2]):
        entries = re.split(r"^(?=\S)", text.strip("\n"), flags=re.MULTILINE)
        found[name] = [(e.split("\n")[0], " ".join(e.split("\n", 1)[1].split()) if "\n" in e else "") for e in entries if e.strip()]
    return " ".join(parts[0].split()), found


def escaped(text: str) -> str:
    """Text of a docstring in Markdown, outside of what is quoted."""
    return "".join(
        part if i % 2 else re.sub(r"([<>*_|\[\]])", r"\\\1", part) for i, part in enumerate(re.split(r"(`[^`]*`)", text))
    )


def described(docstring: str) -> list[str]:
    first, parts = sections(docstring)
    lines = [escaped(first), ""]
    for name, entries in parts.items():
        lines += [f"**{name}**", ""]
        for head, text in entries:
            title, _, hint = head.partition(" : ")
            of_type = f" (`{hint}`)" if hint else ""
            lines.append(f"- `{title}`{of_type}: {escaped(text)}" if text else f"- `{title}`{of_type}")
        lines.append("")
    return lines


def signature(node: ast.FunctionDef, name: str) -> str:
    """What can be given, without types; options by name are in the list below."""
    taken = [a.arg for a in node.args.args if a.arg not in ("self", "cls")]
    return f"{name}({', '.join(taken + (['...'] if node.args.kwonlyargs or node.args.kwarg else []))})"


def documented(node: ast.ClassDef | ast.FunctionDef) -> str:
    text = ast.get_docstring(node)
    assert text, f"{node.name} has no docstring"
    return text


def of_function(node: ast.FunctionDef, owner: str = "") -> list[str]:
    called = {"__new__": owner, "__call__": "transform", "__matmul__": "second @ first", "__bool__": "bool(verdict)"}
    operators = {"__matmul__", "__bool__"}
    name = called.get(node.name, f"{owner.lower()}.{node.name}" if owner else f"voxalign.{node.name}")
    if any(isinstance(d, ast.Name) and d.id == "property" for d in node.decorator_list) or node.name in operators:
        head = name
    else:
        head = signature(node, name)
    return [f"### `{head}`", "", *described(documented(node))]


def written_page() -> str:
    stubs = ast.parse((Path(vx.__file__).parent / "_native.pyi").read_text())
    foreign = ast.parse((Path(vx.__file__).parent / "_foreign.py").read_text())
    nodes = {n.name: n for tree in (foreign, stubs) for n in tree.body if isinstance(n, (ast.ClassDef, ast.FunctionDef))}
    lines = [
        "# Python API", "",
        "Written from the docstrings of the package: what `help(voxalign)` has. [python.md](python.md) explains it. Lengths are in mm, angles in degrees, "
        "world coordinates RAS+, and arrays have x first. A switch that is on by default is turned off by `False`.", "",
    ]
    classes = [nodes[name] for name in ("Image", "Transform", "Result", "Verdict")]
    for node in classes:
        assert isinstance(node, ast.ClassDef)
        lines += [f"## {node.name}", "", escaped(documented(node)), ""]
        for member in node.body:
            if isinstance(member, ast.FunctionDef) and ast.get_docstring(member) and member.name != "__array_interface__":
                lines += of_function(member, node.name)
    lines += ["## Functions", ""]
    for name in vx.__all__:
        found = nodes.get(name)
        if isinstance(found, ast.FunctionDef):
            lines += of_function(found)
    lines += ["## Exceptions", ""]
    for name in vx.__all__:
        found = nodes.get(name)
        if isinstance(found, ast.ClassDef) and found not in classes:
            base = found.bases[0]
            assert isinstance(base, ast.Name)
            lines.append(f"- `{name}` (`{base.id}`): {documented(found)}")
    return "\n".join(lines) + "\n"


def test_the_page_of_the_api() -> None:
    page, text = DOCS / "python-api.md", written_page()
    if os.environ.get("VOXALIGN_WRITE_DOCS"):
        page.write_text(text)
    assert page.read_text() == text, "docs/python-api.md is out of date: VOXALIGN_WRITE_DOCS=1 tools/python.sh test -k page_of_the_api"


def is_plan(node: ast.FunctionDef) -> bool:
    """Whether it is the form of a function that has no documentation of its own: by `dry_run=True`."""
    decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
    return decorators == ["overload"] and node.returns is not None and ast.unparse(node.returns) == "dict[str, Any]"


def test_the_stubs_say_what_the_module_says() -> None:
    stubs = ast.parse((Path(vx.__file__).parent / "_native.pyi").read_text())
    compared = 0
    for node in stubs.body:
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        owner = getattr(vx, node.name, None) if isinstance(node, ast.ClassDef) else _native
        for member in members:
            # What operators do is said in the stubs alone.
            if isinstance(member, ast.FunctionDef) and not member.name.startswith("_") and not is_plan(member):
                assert inspect.getdoc(getattr(owner, member.name)) == documented(member).strip(), member.name
                compared += 1
    assert compared > 40


@pytest.mark.parametrize("name", [name for name in vx.__all__ if inspect.isroutine(getattr(vx, name))])
def test_docstrings_have_the_sections_of_numpy(name: str) -> None:
    _, parts = sections(inspect.getdoc(getattr(vx, name)) or "")
    # What has no arguments has none that could be wrong.
    heads = ["Parameters", "Returns", "Raises"] if inspect.signature(getattr(vx, name)).parameters else ["Returns"]
    assert list(parts) == heads
    # Each argument is said once, in the order of the signature.
    said = [part.strip() for head, _ in parts.get("Parameters", []) for part in head.split(" : ")[0].split(",")]
    assert sorted(said) == sorted(inspect.signature(getattr(vx, name)).parameters)
    assert all(text for entries in parts.values() for _, text in entries)
