"""`python -m voxalign` is the program `voxalign`."""

from ._program import main

if __name__ == "__main__":
    main()
