//! An animated PNG for `tools/check_labels.py`, which knows what every pixel has to be.
//!
//! `animation OUT COLOURS FRAMES WIDTH HEIGHT`, where COLOURS is `grey`, `palette` or `rgb`: a bright disc goes from the left to
//! the right, shown for 50 ms a frame and 1200 ms in the last.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use voxalign_report::draw::{Animation, AnimationOptions, FrameColours};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [out, colours, frames, width, height] = arguments.as_slice() else {
        return Err("use it as `animation OUT COLOURS FRAMES WIDTH HEIGHT`".into());
    };
    let (frames, size) = (frames.parse()?, [width.parse()?, height.parse()?]);
    let colours = match colours.as_str() {
        "grey" => FrameColours::Grey,
        "palette" => FrameColours::Palette(vec![[10, 20, 30], [230, 25, 75]]),
        "rgb" => FrameColours::Rgb,
        other => return Err(format!("the colours '{other}' are not known").into()),
    };
    let pixel: [&[u8]; 2] = match colours {
        FrameColours::Grey => [&[40], &[250]],
        FrameColours::Palette(_) => [&[0], &[1]],
        FrameColours::Rgb => [&[10, 20, 30], &[0, 200, 255]],
    };
    let mut file = BufWriter::new(File::create(out)?);
    let options = AnimationOptions { size, colours, frames, delay_ms: 50, last_ms: 1200 };
    let mut animation = Animation::new(&mut file, options)?;
    let [width, height] = size;
    for n in 0..frames {
        let inside = |x: usize, y: usize| {
            let middle = n * width / frames;
            x.abs_diff(middle).pow(2) + y.abs_diff(height / 2).pow(2) <= (height / 4).pow(2)
        };
        let rows = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        let frame: Vec<u8> =
            rows.flat_map(|(x, y)| pixel[usize::from(inside(x, y))].iter().copied()).collect();
        animation.frame(&frame)?;
    }
    animation.finish()?;
    file.flush()?;
    Ok(())
}
