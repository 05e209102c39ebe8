//! Animated pictures: frames of one size, one after the other, as an animated PNG.

use crate::draw::picture::encoder;
use crate::error::{ReportError, Result};
use std::io::{self, Write};

/// What the bytes of a frame mean, for all frames of an animation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrameColours {
    /// One byte a pixel, from black (0) to white (255).
    Grey,
    /// One byte a pixel, the number of one of these colours, of which there are 1 to 256.
    Palette(Vec<[u8; 3]>),
    /// Red, green and blue, three bytes a pixel.
    Rgb,
}

impl FrameColours {
    /// Bytes of a pixel.
    fn bytes(&self) -> usize {
        if *self == Self::Rgb { 3 } else { 1 }
    }
}

/// How an animation is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnimationOptions {
    /// Columns and rows of every frame.
    pub size: [usize; 2],
    /// What its bytes mean.
    pub colours: FrameColours,
    /// How many frames there will be.
    pub frames: usize,
    /// How long a frame is shown, milliseconds, 65535 at most.
    pub delay_ms: u32,
    /// How long the last one is shown, milliseconds, 65535 at most; then the first follows again.
    pub last_ms: u32,
}

/// An animated PNG while it is written, frame by frame: it holds two frames at a time, whatever their number. It is shown over
/// and over. One frame makes a plain PNG. Programs that know no animations show the first frame. The same frames
/// give the same bytes.
///
/// Of a frame that differs from the one before in a part only, the rectangle around that part is stored.
///
/// ```
/// use voxalign_report::draw::{Animation, AnimationOptions, FrameColours};
///
/// let options = AnimationOptions {
///     size: [4, 2],
///     colours: FrameColours::Palette(vec![[0, 0, 0], [230, 25, 75]]),
///     frames: 4,
///     delay_ms: 80,
///     last_ms: 1500,
/// };
/// let mut file = Vec::new();
/// let mut animation = Animation::new(&mut file, options)?;
/// for n in 0..4 {
///     let frame: Vec<u8> = (0..8).map(|i| u8::from(i % 4 <= n)).collect();
///     animation.frame(&frame)?;
/// }
/// animation.finish()?;
/// assert!(file.starts_with(b"\x89PNG"));
/// # Ok::<(), voxalign_report::ReportError>(())
/// ```
pub struct Animation<W: Write> {
    writer: png::Writer<W>,
    options: AnimationOptions,
    /// The last frame that was given, and how many were.
    before: Vec<u8>,
    given: usize,
}

impl<W: Write> Animation<W> {
    /// Begins an animation and writes its header.
    ///
    /// # Errors
    /// A size of 0, no frame, a palette without colours or with more than 256, a time above 65535 ms; what the sink says.
    pub fn new(sink: W, options: AnimationOptions) -> Result<Self> {
        let [width, height] = options.size;
        let whole = |n: usize| u32::try_from(n).ok().filter(|&n| n > 0 && n <= i32::MAX as u32);
        let pixels = width.checked_mul(height).and_then(|n| n.checked_mul(3));
        let (Some(across), Some(down), Some(_)) = (whole(width), whole(height), pixels) else {
            return Err(ReportError::Pixels { width, height, found: 0 });
        };
        let Some(frames) = whole(options.frames) else {
            return Err(ReportError::Frames { expected: options.frames, found: 0 });
        };
        for ms in [options.delay_ms, options.last_ms] {
            if ms > u32::from(u16::MAX) {
                return Err(ReportError::FrameTime { ms });
            }
        }
        let palette = match &options.colours {
            FrameColours::Palette(colours) if colours.is_empty() || colours.len() > 256 => {
                return Err(ReportError::Palette { colours: colours.len(), number: None });
            }
            FrameColours::Palette(colours) => Some(colours.as_slice()),
            FrameColours::Grey | FrameColours::Rgb => None,
        };
        let fail = |e| failed(options.size, e);
        let mut encoder = encoder(sink, [across, down], palette);
        if options.colours == FrameColours::Rgb {
            encoder.set_color(png::ColorType::Rgb);
        }
        encoder.validate_sequence(true);
        if frames > 1 {
            encoder.set_animated(frames, 0).map_err(fail)?;
        }
        let writer = encoder.write_header().map_err(fail)?;
        Ok(Self { writer, options, before: Vec::new(), given: 0 })
    }

    /// Writes the next frame: its bytes row by row from the top, without gaps.
    ///
    /// # Errors
    /// Another number of bytes than pixels times those of a pixel, a number beyond the palette, more frames than were
    /// said; what the sink says.
    pub fn frame(&mut self, bytes: &[u8]) -> Result<()> {
        let AnimationOptions { size, frames, delay_ms, last_ms, .. } = self.options;
        let [width, height] = size;
        if self.given == frames {
            return Err(ReportError::Frames { expected: frames, found: frames + 1 });
        }
        let wide = self.options.colours.bytes();
        if bytes.len() != width * height * wide {
            let (expected, found) = (width * height * wide, bytes.len());
            return Err(ReportError::Frame { number: self.given, expected, found });
        }
        if let FrameColours::Palette(colours) = &self.options.colours
            && let Some(number) =
                bytes.iter().copied().max().filter(|&n| usize::from(n) >= colours.len())
        {
            return Err(ReportError::Palette { colours: colours.len(), number: Some(number) });
        }
        let changed = match self.given {
            0 => Part { left: 0, top: 0, width, height },
            _ => Part::changed(&self.before, bytes, width * wide, wide),
        };
        let fail = |e| failed(size, e);
        if frames > 1 {
            let ms = if self.given + 1 == frames { last_ms } else { delay_ms };
            // All of these fit, as the size and the times do.
            let [left, top, across, down] =
                [changed.left, changed.top, changed.width, changed.height].map(|n| n as u32);
            self.writer.set_frame_delay(ms as u16, 1000).map_err(fail)?;
            self.writer.reset_frame_position().map_err(fail)?;
            self.writer.set_frame_dimension(across, down).map_err(fail)?;
            self.writer.set_frame_position(left, top).map_err(fail)?;
        }
        let part = changed.of(bytes, width * wide, wide);
        self.writer.write_image_data(&part).map_err(fail)?;
        self.before.clear();
        self.before.extend_from_slice(bytes);
        self.given += 1;
        Ok(())
    }

    /// Ends the file.
    ///
    /// # Errors
    /// Fewer frames than were said; what the sink says.
    pub fn finish(self) -> Result<()> {
        let AnimationOptions { size, frames, .. } = self.options;
        if self.given < frames {
            return Err(ReportError::Frames { expected: frames, found: self.given });
        }
        self.writer.finish().map_err(|e| failed(size, e))
    }
}

/// A part of a frame, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    left: usize,
    top: usize,
    width: usize,
    height: usize,
}

impl Part {
    /// The smallest that has all pixels in which two frames differ; the first pixel where none does. Rows have `row` bytes,
    /// pixels `wide`.
    fn changed(before: &[u8], after: &[u8], row: usize, wide: usize) -> Self {
        let (mut left, mut right, mut top, mut bottom) = (usize::MAX, 0, usize::MAX, 0);
        for (y, (a, b)) in before.chunks(row).zip(after.chunks(row)).enumerate() {
            let mut columns = a.chunks(wide).zip(b.chunks(wide)).map(|(a, b)| a != b);
            let Some(first) = columns.position(|differs| differs) else { continue };
            let last = a.chunks(wide).zip(b.chunks(wide)).rposition(|(a, b)| a != b);
            (left, right) = (left.min(first), right.max(last.unwrap_or(first)));
            (top, bottom) = (top.min(y), y);
        }
        if left > right {
            return Self { left: 0, top: 0, width: 1, height: 1 };
        }
        Self { left, top, width: right - left + 1, height: bottom - top + 1 }
    }

    /// Its bytes.
    fn of(&self, bytes: &[u8], row: usize, wide: usize) -> Vec<u8> {
        let rows = bytes.chunks(row).skip(self.top).take(self.height);
        let columns = self.left * wide..(self.left + self.width) * wide;
        rows.filter_map(|row| row.get(columns.clone())).flatten().copied().collect()
    }
}

/// What the encoder says, and what the sink says.
fn failed([width, height]: [usize; 2], error: png::EncodingError) -> ReportError {
    match error {
        png::EncodingError::IoError(error) => ReportError::Sink(error),
        source => ReportError::Png { width, height, source },
    }
}

impl From<ReportError> for io::Error {
    /// For whoever writes a file by a function that gives the errors of its sink: these stay as they are.
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::Sink(error) => error,
            other => io::Error::other(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(colours: FrameColours, size: [usize; 2], frames: usize) -> AnimationOptions {
        AnimationOptions { size, colours, frames, delay_ms: 40, last_ms: 2000 }
    }

    fn written(options: &AnimationOptions, frames: &[Vec<u8>]) -> Result<Vec<u8>> {
        let mut file = Vec::new();
        let mut animation = Animation::new(&mut file, options.clone())?;
        for frame in frames {
            animation.frame(frame)?;
        }
        animation.finish()?;
        Ok(file)
    }

    /// The whole frames of a file with their times in milliseconds, put together as a viewer does.
    fn shown(file: &[u8], wide: usize) -> Vec<(Vec<u8>, u32)> {
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let info = reader.info();
        let row = info.width as usize * wide;
        let count = info.animation_control().map_or(1, |a| {
            assert_eq!(a.num_plays, 0, "over and over");
            a.num_frames
        });
        let mut canvas = vec![0; row * info.height as usize];
        let mut out = Vec::new();
        for _ in 0..count {
            let mut part = vec![0; reader.output_buffer_size().unwrap()];
            let found = reader.next_frame(&mut part).unwrap();
            let control = reader.info().frame_control();
            let (left, top) =
                control.map_or((0, 0), |c| (c.x_offset as usize, c.y_offset as usize));
            let length = found.width as usize * wide;
            for (y, line) in part[..found.buffer_size()].chunks(length).enumerate() {
                let at = (top + y) * row + left * wide;
                canvas[at..at + length].copy_from_slice(line);
            }
            let ms = control.map_or(0, |c| {
                assert_eq!((c.delay_den, c.blend_op), (1000, png::BlendOp::Source));
                assert_eq!(c.dispose_op, png::DisposeOp::None);
                u32::from(c.delay_num)
            });
            out.push((canvas.clone(), ms));
        }
        out
    }

    /// Frames with changes at corners, nowhere and everywhere.
    fn frames(pixels: usize, wide: usize, colours: u8) -> Vec<Vec<u8>> {
        let first: Vec<u8> = (0..pixels * wide).map(|i| (i * 7 % 251) as u8 % colours).collect();
        let mut all = vec![first.clone(), first];
        for at in [0, pixels * wide - 1, pixels * wide / 2] {
            let mut next = all[all.len() - 1].clone();
            next[at] = (next[at] + 1) % colours;
            all.push(next);
        }
        all.push((0..pixels * wide).map(|i| (i * 11 % 253) as u8 % colours).collect());
        all
    }

    #[test]
    fn frames_come_back_with_their_times() {
        let palette = FrameColours::Palette((0..5).map(|i| [i * 50, 255 - i, i]).collect());
        for (colours, most) in [(FrameColours::Grey, 255), (FrameColours::Rgb, 255), (palette, 5)] {
            for size in [[1, 1], [7, 3], [1, 9], [64, 33]] {
                let wide = colours.bytes();
                let frames = frames(size[0] * size[1], wide, most);
                let options = options(colours.clone(), size, frames.len());
                let file = written(&options, &frames).unwrap();
                let found = shown(&file, wide);
                let times: Vec<u32> = found.iter().map(|f| f.1).collect();
                assert_eq!(times, [40, 40, 40, 40, 40, 2000]);
                let found: Vec<_> = found.into_iter().map(|f| f.0).collect();
                assert_eq!(found, frames, "{colours:?} {size:?}");
                assert_eq!(written(&options, &frames).unwrap(), file);
            }
        }
    }

    #[test]
    fn one_frame_is_a_plain_picture() {
        let frame = vec![3, 200, 7, 9, 0, 255];
        let file = written(&options(FrameColours::Grey, [3, 2], 1), std::slice::from_ref(&frame));
        let file = file.unwrap();
        assert!(!file.windows(4).any(|w| w == b"acTL" || w == b"fcTL"));
        assert_eq!(shown(&file, 1), [(frame, 0)]);
    }

    #[test]
    fn only_what_changes_is_stored() {
        let mixed = |i: u32| {
            let i = i.wrapping_mul(2_654_435_769);
            (i ^ i >> 15).wrapping_mul(2_246_822_507) >> 24
        };
        let noise: Vec<u8> = (0..40_000).map(|i| mixed(i) as u8).collect();
        let mut still = vec![noise; 10];
        let one = written(&options(FrameColours::Grey, [200, 200], 1), &still[..1]).unwrap().len();
        for (i, frame) in still.iter_mut().enumerate() {
            frame[20_100 + i] ^= 255;
        }
        let all = written(&options(FrameColours::Grey, [200, 200], 10), &still).unwrap().len();
        assert!(one > 30_000 && all < one + 2000, "{one} {all}");
    }

    #[test]
    fn parts_are_the_smallest() {
        let before = [0u8; 12];
        let part = |changes: &[usize], row, wide| {
            let mut after = before;
            changes.iter().for_each(|&i| after[i] = 1);
            let p = Part::changed(&before, &after, row, wide);
            (p.left, p.top, p.width, p.height)
        };
        assert_eq!(part(&[], 4, 1), (0, 0, 1, 1));
        assert_eq!(part(&[0], 4, 1), (0, 0, 1, 1));
        assert_eq!(part(&[11], 4, 1), (3, 2, 1, 1));
        assert_eq!(part(&[2, 5], 4, 1), (1, 0, 2, 2));
        assert_eq!(part(&[1, 9, 11], 6, 3), (0, 0, 2, 2));
        assert_eq!(part(&[11], 6, 3), (1, 1, 1, 1));
    }

    #[test]
    fn what_is_wrong_is_told() {
        let grey = |size, frames| options(FrameColours::Grey, size, frames);
        let begin = |options: AnimationOptions| Animation::new(io::sink(), options).err().unwrap();
        for size in [[0, 3], [3, 0], [usize::MAX, 3]] {
            assert!(matches!(begin(grey(size, 2)), ReportError::Pixels { .. }));
        }
        assert!(matches!(begin(grey([2, 2], 0)), ReportError::Frames { expected: 0, found: 0 }));
        let long = AnimationOptions { last_ms: 65_536, ..grey([2, 2], 2) };
        assert!(matches!(begin(long), ReportError::FrameTime { ms: 65_536 }));
        for n in [0, 257] {
            let error = begin(options(FrameColours::Palette(vec![[0; 3]; n]), [2, 2], 2));
            assert!(matches!(error, ReportError::Palette { number: None, .. }), "{error}");
        }
        let two = FrameColours::Palette(vec![[0; 3], [255; 3]]);
        let error = written(&options(two, [2, 1], 1), &[vec![1, 2]]).unwrap_err();
        assert!(matches!(error, ReportError::Palette { colours: 2, number: Some(2) }), "{error}");
        let error = written(&grey([2, 2], 2), &[vec![0; 4], vec![0; 5]]).unwrap_err();
        assert!(
            matches!(error, ReportError::Frame { number: 1, expected: 4, found: 5 }),
            "{error}"
        );
        let error = written(&grey([2, 2], 3), &vec![vec![0; 4]; 2]).unwrap_err();
        assert!(matches!(error, ReportError::Frames { expected: 3, found: 2 }), "{error}");
        for n in [1, 2] {
            let error = written(&grey([2, 2], n), &vec![vec![0; 4]; n + 1]).unwrap_err();
            assert!(
                matches!(error, ReportError::Frames { found, .. } if found == n + 1),
                "{error}"
            );
        }
    }

    /// A sink that takes some bytes.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_told_as_such() {
        let frames = frames(64, 1, 255);
        let whole = written(&options(FrameColours::Grey, [8, 8], frames.len()), &frames).unwrap();
        for room in [0, 20, whole.len() / 2, whole.len() - 1] {
            let attempt = || -> Result<()> {
                let sink = Full(room);
                let mut a =
                    Animation::new(sink, options(FrameColours::Grey, [8, 8], frames.len()))?;
                frames.iter().try_for_each(|frame| a.frame(frame))?;
                a.finish()
            };
            let error = attempt().unwrap_err();
            assert!(matches!(&error, ReportError::Sink(_)), "{room}: {error}");
            assert_eq!(io::Error::from(error).kind(), io::ErrorKind::StorageFull);
        }
    }
}
