(function () {
  'use strict';
  var figure = document.currentScript.parentNode, root = figure.querySelector('.view3d');
  var data = JSON.parse(root.querySelector('script').textContent);
  var canvas = root.querySelector('canvas'), context = canvas.getContext('2d');
  var hint = root.querySelector('.hint');
  if (!context) return;

  var bytes = function (text) {
    var raw = atob(text), out = new Uint8Array(raw.length);
    for (var i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
    return out;
  };
  // Little endian, whatever the machine is.
  var words = function (text, size) {
    var from = bytes(text), n = from.length / size, out = new Uint32Array(n);
    for (var i = 0; i < n; i++) {
      for (var b = size - 1; b >= 0; b--) out[i] = out[i] * 256 + from[i * size + b];
    }
    return out;
  };

  // Positions in mm about the middle of all.
  var low = [1e9, 1e9, 1e9], high = [-1e9, -1e9, -1e9];
  var layers = data.layers.map(function (layer) {
    var packed = words(layer.vertices, 2), n = packed.length / 3, at = new Float32Array(packed.length);
    for (var i = 0; i < packed.length; i++) {
      var a = i % 3;
      at[i] = packed[i] * data.step;
      low[a] = Math.min(low[a], at[i]);
      high[a] = Math.max(high[a], at[i]);
    }
    var hex = parseInt(layer.colour.slice(1), 16);
    return {
      kind: layer.kind, count: n, at: at, faces: words(layer.faces, 2), lines: words(layer.lines, 4),
      values: layer.values ? bytes(layer.values) : null, rgb: [hex >> 16, hex >> 8 & 255, hex & 255],
      opacity: layer.opacity, shown: layer.shown,
      x: new Float32Array(n), y: new Float32Array(n), z: new Float32Array(n), light: new Float32Array(n),
      shine: new Float32Array(n)
    };
  });
  var middle = [0, 1, 2].map(function (a) { return (low[a] + high[a]) / 2; });
  var radius = 0;
  layers.forEach(function (layer) {
    var at = layer.at, normals = new Float32Array(at.length), f = layer.faces, i;
    for (i = 0; i < at.length; i += 3) {
      at[i] -= middle[0]; at[i + 1] -= middle[1]; at[i + 2] -= middle[2];
      radius = Math.max(radius, Math.hypot(at[i], at[i + 1], at[i + 2]));
    }
    for (i = 0; i < f.length; i += 3) {
      var a = f[i] * 3, b = f[i + 1] * 3, c = f[i + 2] * 3;
      var ux = at[b] - at[a], uy = at[b + 1] - at[a + 1], uz = at[b + 2] - at[a + 2];
      var vx = at[c] - at[a], vy = at[c + 1] - at[a + 1], vz = at[c + 2] - at[a + 2];
      var nx = uy * vz - uz * vy, ny = uz * vx - ux * vz, nz = ux * vy - uy * vx;
      [a, b, c].forEach(function (k) { normals[k] += nx; normals[k + 1] += ny; normals[k + 2] += nz; });
    }
    for (i = 0; i < normals.length; i += 3) {
      var size = Math.hypot(normals[i], normals[i + 1], normals[i + 2]) || 1;
      normals[i] /= size; normals[i + 1] /= size; normals[i + 2] /= size;
    }
    layer.normals = normals;
  });
  radius = radius || 1;

  // How it is looked at: the directions to the right, upwards, and towards the viewer.
  var LOOKS = {
    Front: [[-1, 0, 0], [0, 0, 1]], Back: [[1, 0, 0], [0, 0, 1]], Right: [[0, 1, 0], [0, 0, 1]],
    Left: [[0, -1, 0], [0, 0, 1]], Top: [[1, 0, 0], [0, 1, 0]], Bottom: [[-1, 0, 0], [0, 1, 0]]
  };
  var cross = function (a, b) {
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
  };
  var unit = function (a) {
    var size = Math.hypot(a[0], a[1], a[2]) || 1;
    return [a[0] / size, a[1] / size, a[2] / size];
  };
  var mix = function (a, s, b, t) { return [0, 1, 2].map(function (i) { return a[i] * s + b[i] * t; }); };
  var right, up, ahead, zoom, shift;
  var turn = function (across, down) {
    right = unit(mix(right, Math.cos(across), ahead, -Math.sin(across)));
    ahead = unit(cross(right, up));
    up = unit(mix(up, Math.cos(down), ahead, Math.sin(down)));
    ahead = unit(cross(right, up));
    up = cross(ahead, right);
  };
  var look = function (name) {
    var from = LOOKS[name || 'Front'];
    right = from[0]; up = from[1]; ahead = cross(right, up);
    if (!name) { turn(0.6, 0); turn(0, 0.35); }
    zoom = 1; shift = [0, 0];
  };
  look('');
  // At first what is shown fills the picture.
  var begin = function (name) {
    look(name);
    var wide = 1e-9, tall = 1e-9;
    layers.forEach(function (layer) {
      if (!layer.shown) return;
      for (var k = 0; k < layer.at.length; k += 3) {
        var x = layer.at[k], y = layer.at[k + 1], z = layer.at[k + 2];
        wide = Math.max(wide, Math.abs(right[0] * x + right[1] * y + right[2] * z));
        tall = Math.max(tall, Math.abs(up[0] * x + up[1] * y + up[2] * z));
      }
    });
    var width = canvas.clientWidth || 16, height = canvas.clientHeight || 9;
    var fit = 0.46 * Math.min(width, height) / radius;
    zoom = Math.min(4, Math.min(0.42 * width / wide, 0.42 * height / tall) / fit);
  };

  // Pictures are drawn in software: the same on every machine, with or without a GPU.
  var frame = { width: 0, height: 0 };
  var palette = data.colours.length ? data.colours : [[180, 188, 198]];
  var byteColour = [];
  for (var v = 0; v < 256; v++) {
    byteColour.push(v === 255 ? [120, 126, 134] : palette[Math.round(v / 254 * (palette.length - 1))]);
  }
  var resize = function (scale) {
    var width = Math.max(1, Math.round(canvas.clientWidth * scale));
    var height = Math.max(1, Math.round(canvas.clientHeight * scale));
    if (frame.width === width && frame.height === height) return;
    var paper = document.createElement('canvas');
    paper.width = width; paper.height = height;
    var image = paper.getContext('2d').createImageData(width, height);
    frame = {
      width: width, height: height, paper: paper, image: image, colour: new Uint8ClampedArray(width * height * 4),
      depth: new Float32Array(width * height), over: new Uint8ClampedArray(width * height * 4),
      overDepth: new Float32Array(width * height)
    };
  };

  var project = function (layer, scale) {
    var at = layer.at, nrm = layer.normals, cx = frame.width / 2, cy = frame.height / 2;
    for (var i = 0, k = 0; i < layer.count; i++, k += 3) {
      var px = at[k], py = at[k + 1], pz = at[k + 2];
      layer.x[i] = cx + (right[0] * px + right[1] * py + right[2] * pz) * scale + shift[0] * frame.ratio;
      layer.y[i] = cy - (up[0] * px + up[1] * py + up[2] * pz) * scale + shift[1] * frame.ratio;
      layer.z[i] = ahead[0] * px + ahead[1] * py + ahead[2] * pz;
      var fade = 0.8 + 0.2 * layer.z[i] / radius;
      if (layer.kind === 'surface') {
        var nx = right[0] * nrm[k] + right[1] * nrm[k + 1] + right[2] * nrm[k + 2];
        var ny = up[0] * nrm[k] + up[1] * nrm[k + 1] + up[2] * nrm[k + 2];
        var nz = ahead[0] * nrm[k] + ahead[1] * nrm[k + 1] + ahead[2] * nrm[k + 2];
        // The inside of open surfaces is darker.
        var side = nz < 0 ? -1 : 1;
        var lit = Math.max(0, side * (-0.35 * nx + 0.45 * ny + 0.82 * nz));
        layer.light[i] = (0.26 + 0.78 * lit) * fade * (side < 0 ? 0.72 : 1);
        layer.shine[i] = side < 0 ? 0 : 52 * Math.pow(lit, 24);
      } else {
        layer.light[i] = fade;
      }
    }
  };

  var triangles = function (layer, colour, depth, limit) {
    var X = layer.x, Y = layer.y, Z = layer.z, L = layer.light, S = layer.shine, V = layer.values;
    var width = frame.width, height = frame.height, f = layer.faces, rgb = layer.rgb;
    for (var i = 0; i < f.length; i += 3) {
      var a = f[i], b = f[i + 1], c = f[i + 2];
      var ax = X[a], ay = Y[a], bx = X[b], by = Y[b], cx = X[c], cy = Y[c];
      var area = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay);
      if (area === 0) continue;
      var x0 = Math.max(0, Math.ceil(Math.min(ax, bx, cx))), x1 = Math.min(width - 1, Math.floor(Math.max(ax, bx, cx)));
      var y0 = Math.max(0, Math.ceil(Math.min(ay, by, cy))), y1 = Math.min(height - 1, Math.floor(Math.max(ay, by, cy)));
      for (var y = y0; y <= y1; y++) {
        for (var x = x0; x <= x1; x++) {
          var u = ((bx - x) * (cy - y) - (cx - x) * (by - y)) / area;
          var v = ((cx - x) * (ay - y) - (ax - x) * (cy - y)) / area;
          var w = 1 - u - v;
          if (u < 0 || v < 0 || w < 0) continue;
          var z = u * Z[a] + v * Z[b] + w * Z[c], p = y * width + x;
          if (z <= depth[p] || (limit && z <= limit[p])) continue;
          depth[p] = z;
          var t = u * L[a] + v * L[b] + w * L[c], s = u * S[a] + v * S[b] + w * S[c];
          if (V) {
            var na = V[a], nb = V[b], nc = V[c];
            rgb = byteColour[na === 255 || nb === 255 || nc === 255 ? 255 : Math.round(u * na + v * nb + w * nc)];
          }
          p *= 4;
          colour[p] = rgb[0] * t + s; colour[p + 1] = rgb[1] * t + s; colour[p + 2] = rgb[2] * t + s; colour[p + 3] = 255;
        }
      }
    }
  };
  // A disc of pixels, for points and along lines.
  var dot = function (layer, x, y, z, light, value, size) {
    var rgb = layer.values ? byteColour[value] : layer.rgb;
    for (var dy = -Math.floor(size); dy <= size; dy++) {
      for (var dx = -Math.floor(size); dx <= size; dx++) {
        var away = dx * dx + dy * dy, qx = Math.round(x) + dx, qy = Math.round(y) + dy;
        if (away > size * size || qx < 0 || qy < 0 || qx >= frame.width || qy >= frame.height) continue;
        var p = qy * frame.width + qx, t = light * (1 - 0.35 * away / (size * size + 0.01));
        if (z <= frame.depth[p]) continue;
        frame.depth[p] = z;
        p *= 4;
        frame.colour[p] = rgb[0] * t; frame.colour[p + 1] = rgb[1] * t; frame.colour[p + 2] = rgb[2] * t;
        frame.colour[p + 3] = 255;
      }
    }
  };
  var curves = function (layer) {
    var start = 0, size = Math.max(0.6, 0.9 * frame.ratio), V = layer.values;
    layer.lines.forEach(function (length) {
      for (var i = start; i + 1 < start + length; i++) {
        var dx = layer.x[i + 1] - layer.x[i], dy = layer.y[i + 1] - layer.y[i];
        var steps = Math.min(4000, Math.max(1, Math.ceil(Math.max(Math.abs(dx), Math.abs(dy)))));
        for (var s = 0; s <= steps; s++) {
          var t = s / steps;
          dot(layer, layer.x[i] + dx * t, layer.y[i] + dy * t, layer.z[i] * (1 - t) + layer.z[i + 1] * t,
            layer.light[i], V ? V[i] : 0, size);
        }
      }
      start += length;
    });
  };
  var points = function (layer) {
    var size = (layer.count > 2000 ? 1.5 : 3) * frame.ratio;
    for (var i = 0; i < layer.count; i++) {
      dot(layer, layer.x[i], layer.y[i], layer.z[i], layer.light[i], layer.values ? layer.values[i] : 0, size);
    }
  };

  // The axes of the body, and a bar of round length: the view has no perspective.
  var furniture = function (scale) {
    var ratio = canvas.width / canvas.clientWidth, x = 46 * ratio, y = canvas.height - 46 * ratio;
    context.lineWidth = 1.6 * ratio;
    context.font = 600 + ' ' + 12 * ratio + 'px system-ui,sans-serif';
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    [['R', 0, '#ff8f8f'], ['A', 1, '#8fe39a'], ['S', 2, '#8fb8ff']].sort(function (p, q) {
      return ahead[p[1]] - ahead[q[1]];
    }).forEach(function (axis) {
      var dx = right[axis[1]] * 26 * ratio, dy = -up[axis[1]] * 26 * ratio;
      context.strokeStyle = context.fillStyle = axis[2];
      context.beginPath(); context.moveTo(x, y); context.lineTo(x + dx, y + dy); context.stroke();
      context.fillText(axis[0], x + dx * 1.36, y + dy * 1.36);
    });
    var most = 0.18 * canvas.width / scale, power = Math.pow(10, Math.floor(Math.log10(most)));
    var length = power * (most >= 5 * power ? 5 : most >= 2 * power ? 2 : 1), from = 104 * ratio, base = canvas.height - 18 * ratio;
    context.strokeStyle = context.fillStyle = '#c8d0da';
    context.beginPath();
    context.moveTo(from, base - 4 * ratio); context.lineTo(from, base);
    context.lineTo(from + length * scale, base); context.lineTo(from + length * scale, base - 4 * ratio);
    context.stroke();
    context.textAlign = 'left';
    context.fillText(Number(length.toPrecision(2)) + ' mm', from, base - 13 * ratio);
  };

  var draw = function (detail) {
    if (!canvas.clientWidth) return;
    var sharp = Math.min(2, window.devicePixelRatio || 1);
    canvas.width = Math.round(canvas.clientWidth * sharp);
    canvas.height = Math.round(canvas.clientHeight * sharp);
    resize(detail);
    frame.ratio = frame.width / canvas.clientWidth;
    var fit = 0.46 * Math.min(canvas.clientWidth, canvas.clientHeight) / radius * zoom;
    frame.colour.fill(0);
    frame.depth.fill(-1e30);
    var shown = layers.filter(function (layer) { return layer.shown && layer.opacity > 0; });
    shown.forEach(function (layer) { project(layer, fit * frame.ratio); });
    shown.forEach(function (layer) {
      if (layer.kind === 'lines') curves(layer);
      else if (layer.kind === 'points') points(layer);
      else if (layer.opacity >= 1) triangles(layer, frame.colour, frame.depth, null);
    });
    // Of a translucent surface what is nearest shows, over all that is opaque.
    shown.filter(function (layer) { return layer.kind === 'surface' && layer.opacity < 1; }).forEach(function (layer) {
      frame.over.fill(0);
      frame.overDepth.fill(-1e30);
      triangles(layer, frame.over, frame.overDepth, frame.depth);
      var from = frame.over, to = frame.colour, part = layer.opacity;
      for (var p = 0; p < from.length; p += 4) {
        if (!from[p + 3]) continue;
        var rest = 1 - part;
        for (var c = 0; c < 3; c++) to[p + c] = from[p + c] * part + (to[p + 3] ? to[p + c] : [11, 14, 19][c]) * rest;
        to[p + 3] = 255;
      }
    });
    frame.image.data.set(frame.colour);
    frame.paper.getContext('2d').putImageData(frame.image, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.imageSmoothingEnabled = true;
    context.imageSmoothingQuality = 'high';
    context.drawImage(frame.paper, 0, 0, canvas.width, canvas.height);
    furniture(fit * canvas.width / canvas.clientWidth);
  };

  // Coarse while it moves, fine when it rests.
  var asked = false, resting = null, coarse = 1;
  var settle = function () {
    draw(2 * Math.min(1.5, window.devicePixelRatio || 1));
    var lit = 0;
    for (var p = 3; p < frame.colour.length; p += 4) lit += frame.colour[p] ? 1 : 0;
    figure.setAttribute('data-lit', String(lit));
  };
  var ask = function () {
    if (!asked) {
      asked = true;
      requestAnimationFrame(function () {
        asked = false;
        var before = performance.now();
        draw(coarse);
        var took = performance.now() - before;
        if (took > 70) coarse = Math.max(0.4, coarse * 0.8);
        else if (took < 20) coarse = Math.min(1, coarse * 1.15);
      });
    }
    clearTimeout(resting);
    resting = setTimeout(settle, 180);
  };

  var last = null;
  canvas.addEventListener('pointerdown', function (event) {
    last = [event.clientX, event.clientY];
    canvas.setPointerCapture(event.pointerId);
    canvas.focus({ preventScroll: true });
    if (hint) hint.hidden = true;
  });
  canvas.addEventListener('pointermove', function (event) {
    if (!last) return;
    var dx = event.clientX - last[0], dy = event.clientY - last[1];
    last = [event.clientX, event.clientY];
    if (event.shiftKey || event.buttons & 4) { shift[0] += dx; shift[1] += dy; }
    else turn(-dx * 0.009, dy * 0.009);
    ask();
  });
  ['pointerup', 'pointercancel'].forEach(function (name) {
    canvas.addEventListener(name, function () { last = null; });
  });
  canvas.addEventListener('wheel', function (event) {
    // Pages scroll on until somebody clicks into the picture.
    if (document.activeElement !== canvas) return;
    event.preventDefault();
    zoom = Math.min(40, Math.max(0.3, zoom * Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015))));
    ask();
  }, { passive: false });
  canvas.addEventListener('dblclick', function () { begin(''); ask(); });
  canvas.addEventListener('keydown', function (event) {
    var step = 0.12, keys = { ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
    if (keys[event.key]) turn(keys[event.key][0], keys[event.key][1]);
    else if (event.key === '+' || event.key === '=') zoom = Math.min(40, zoom * 1.15);
    else if (event.key === '-') zoom = Math.max(0.3, zoom / 1.15);
    else return;
    event.preventDefault();
    ask();
  });
  Array.prototype.forEach.call(root.querySelectorAll('[data-look]'), function (button) {
    button.addEventListener('click', function () {
      begin(button.getAttribute('data-look'));
      ask();
    });
  });
  Array.prototype.forEach.call(root.querySelectorAll('.layers > div'), function (row, i) {
    var box = row.querySelector('input[type=checkbox]'), range = row.querySelector('input[type=range]');
    box.addEventListener('change', function () { layers[i].shown = box.checked; ask(); });
    if (range) range.addEventListener('input', function () { layers[i].opacity = Number(range.value) / 100; ask(); });
  });
  root.hidden = false;
  begin('');
  window.addEventListener('resize', ask);
  settle();
})();
