(function () {
  'use strict';
  var all = function (query, from) {
    return Array.prototype.slice.call((from || document).querySelectorAll(query));
  };

  // Copy buttons.
  all('.copy').forEach(function (button) {
    if (!navigator.clipboard) return;
    button.hidden = false;
    button.addEventListener('click', function () {
      navigator.clipboard.writeText(button.parentNode.querySelector('pre').textContent).then(
        function () { button.textContent = 'Copied'; },
        function () { button.textContent = 'Select and copy'; });
    });
  });

  // The comparison: the fixed image below, the moving image above it, clipped or faded.
  var box = document.getElementById('compare-box');
  var tools = document.getElementById('compare-tools');
  if (box && tools) {
    var range = document.getElementById('compare-range');
    var blink = document.getElementById('compare-blink');
    var timer = null, shown = true, row = Number(box.getAttribute('data-row'));
    var pairs = all('#fig-slices .pic').filter(function (pic) {
      return pic.firstChild.id.indexOf('slice-0-') === 0;
    }).map(function (pic) {
      var copy = pic.cloneNode(true), name = pic.getAttribute('data-plane');
      var below = copy.firstChild, above = below.cloneNode(true), seam = document.createElement('span');
      below.id = 'compare-fixed-' + name;
      above.id = 'compare-moving-' + name;
      above.className = 'top';
      seam.className = 'seam';
      copy.insertBefore(above, below.nextSibling);
      copy.appendChild(seam);
      box.appendChild(copy);
      return { name: name, box: copy, above: above, seam: seam };
    });
    var mode = function () { return document.getElementById('compare-fade').checked; };
    var draw = function () {
      var part = Number(range.value), fade = mode();
      pairs.forEach(function (pair) {
        var wipe = !fade && !timer;
        pair.above.style.clipPath = wipe ? 'inset(0 0 0 ' + part + '%)' : 'none';
        pair.above.style.opacity = timer ? (shown ? 1 : 0) : (fade ? 1 - part / 100 : 1);
        pair.seam.style.left = part + '%';
        pair.seam.hidden = !wipe;
        pair.seam.style.display = wipe ? '' : 'none';
      });
    };
    var load = function () {
      pairs.forEach(function (pair) {
        var from = document.getElementById('slice-' + row + '-' + pair.name);
        pair.above.src = from.src;
        pair.above.alt = from.alt;
      });
    };
    var drag = function (event) {
      if (event.type === 'pointermove' && !event.buttons) return;
      var area = event.currentTarget.getBoundingClientRect();
      range.value = String(Math.round((event.clientX - area.left) / area.width * 100));
      draw();
    };
    pairs.forEach(function (pair) {
      pair.box.style.cursor = 'ew-resize';
      pair.box.style.touchAction = 'pan-y';
      all('img', pair.box).forEach(function (img) { img.draggable = false; });
      pair.box.addEventListener('pointerdown', drag);
      pair.box.addEventListener('pointermove', drag);
    });
    range.addEventListener('input', draw);
    all('input[type=radio]', tools).forEach(function (radio) {
      radio.addEventListener('change', function () {
        if (radio.name === 'compare-what') { row = Number(radio.value); load(); }
        draw();
      });
    });
    blink.addEventListener('click', function () {
      if (timer) { clearInterval(timer); timer = null; } else {
        timer = setInterval(function () { shown = !shown; draw(); }, 600);
      }
      blink.setAttribute('aria-pressed', String(Boolean(timer)));
      draw();
    });
    load();
    draw();
    document.getElementById('fig-compare').hidden = false;
    document.getElementById('nav-compare').hidden = false;
  }

  // Tables whose headings sort: numbers as numbers, the largest or the first letter first.
  all('table.sortable').forEach(function (table) {
    var body = table.tBodies[0], heads = all('thead th', table);
    var value = function (row, column) {
      var text = row.cells[column].textContent.trim();
      if (!heads[column].classList.contains('n')) return text;
      var plain = text.replace(/\u2212/g, '-').replace(/[\s\u202f]/g, '');
      return plain !== '' && isFinite(plain) ? Number(plain) : -Infinity;
    };
    heads.forEach(function (head, column) {
      var button = document.createElement('button');
      button.type = 'button';
      button.className = 'sort';
      button.textContent = head.textContent;
      head.textContent = '';
      head.appendChild(button);
      button.addEventListener('click', function () {
        var down = head.getAttribute('aria-sort') !== 'descending';
        if (!head.classList.contains('n') && !head.hasAttribute('aria-sort')) down = false;
        heads.forEach(function (other) { other.removeAttribute('aria-sort'); });
        head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
        Array.prototype.slice.call(body.rows).sort(function (a, b) {
          var x = value(a, column), y = value(b, column);
          var order = x < y ? -1 : x > y ? 1 : 0;
          return down ? -order : order;
        }).forEach(function (row) { body.appendChild(row); });
      });
    });
  });

  // Says on the body how many pictures there are and how many of them are drawn.
  var count = function () {
    var images = Array.prototype.slice.call(document.images);
    var drawn = images.filter(function (img) { return img.complete && img.naturalWidth > 0; });
    document.body.setAttribute('data-figures', String(images.length));
    document.body.setAttribute('data-figures-ok', String(drawn.length));
  };
  if (document.readyState === 'complete') count();
  window.addEventListener('load', count);
})();
