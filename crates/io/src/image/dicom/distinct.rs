//! Attributes that tell apart frames at the same position: times, echoes, diffusion directions, image types.

use super::dataset::DataSet;
use super::ge;
use super::header::{Frame, Groups};
use super::siemens::Csa;
use super::tags;
use nalgebra::Vector3;
use std::collections::BTreeMap;

/// What distinguishes frames at one place, in the order in which it is tried.
pub(super) const DISTINCTIONS: [&str; 14] = [
    "segment",
    "temporal position",
    "echo time",
    "inversion time",
    "b-value",
    "image type",
    "diffusion direction",
    "time slot",
    "energy window",
    "dimension index",
    "trigger time",
    "acquisition number",
    "acquisition time",
    "content time",
];

/// The place of a distinction in [`DISTINCTIONS`].
pub(super) fn distinction(name: &str) -> usize {
    DISTINCTIONS.iter().position(|d| *d == name).unwrap_or(0)
}

/// Those of which volumes have the order of their acquisition, where that is known.
const IN_TIME: [usize; 3] = [11, 12, 13];
/// The acquisition time and the content time.
const TIMES: [usize; 2] = [12, 13];
/// Most distinctions that are joined.
const JOINED: usize = 3;

/// By [`DISTINCTIONS`].
pub(super) type Distinctions = [Option<String>; DISTINCTIONS.len()];

/// The dimensions of a file along which frames lie at one place.
fn dimension_index(groups: &Groups<'_>, set: &DataSet) -> Option<String> {
    // The stack, the place in it, and what says the place.
    const OF_PLACE: [u32; 4] = [0x0020_9056, 0x0020_9057, tags::POSITION, 0x0020_1041];
    let values = groups.item(tags::FRAME_CONTENT_SEQUENCE)?.numbers(tags::DIMENSION_VALUES).ok()?;
    let pointers = set.items(tags::DIMENSION_SEQUENCE);
    let others = pointers.iter().zip(&values).filter_map(|(item, value)| {
        let pair = item.numbers(tags::DIMENSION_POINTER).ok()?;
        let [group, element] = pair[..] else { return None };
        let tag = (group as u32) << 16 | element as u32;
        (!OF_PLACE.contains(&tag)).then(|| value.to_string())
    });
    let others: Vec<String> = others.collect();
    (!others.is_empty()).then(|| others.join("-"))
}

/// The kind of a frame: of the frame itself where the file says it.
fn kind(groups: &Groups<'_>, set: &DataSet) -> Option<String> {
    let of_frame = [tags::MR_FRAME_TYPE, tags::CT_FRAME_TYPE, tags::PET_FRAME_TYPE];
    let own = of_frame.iter().find_map(|&sequence| {
        let item = groups.item(sequence)?;
        match (item.text(tags::FRAME_TYPE), item.text(tags::COMPLEX_COMPONENT)) {
            (Some(kind), Some(component)) => Some(format!("{kind}\\{component}")),
            (kind, component) => kind.or(component),
        }
    });
    let found = own.or_else(|| set.text(tags::IMAGE_TYPE));
    match ge::component(set) {
        Some(component) => {
            Some(found.map_or(component.into(), |kind| format!("{kind}\\{component}")))
        }
        None => found,
    }
}

/// Dates and times as one text that sorts as they do.
fn moment(set: &DataSet, date: u32, time: u32) -> Option<String> {
    let time = set.text(time)?;
    Some(set.text(date).map_or(time.clone(), |date| format!("{date}{time}")))
}

/// What a frame has of each distinction.
pub(super) fn of_frame(
    groups: &Groups<'_>,
    set: &DataSet,
    number: usize,
    diffusion: &Diffusion,
) -> Distinctions {
    let content = |tag| groups.text(tags::FRAME_CONTENT_SEQUENCE, tag);
    let item = groups.item(tags::FRAME_CONTENT_SEQUENCE);
    let echo = groups
        .text(tags::ECHO_SEQUENCE, tags::EFFECTIVE_ECHO_TIME)
        .or_else(|| groups.text(tags::ECHO_SEQUENCE, tags::ECHO_TIME))
        .or_else(|| groups.text(tags::TIMING_SEQUENCE, tags::ECHO_TIME));
    let vector = |tag| {
        let values = set.numbers(tag).unwrap_or_default();
        values.get(number).map(|v| format!("{v:?}"))
    };
    let acquired = item
        .and_then(|item| {
            item.text(tags::FRAME_ACQUISITION).or_else(|| item.text(tags::FRAME_REFERENCE))
        })
        .or_else(|| moment(set, tags::ACQUISITION_DATE, tags::ACQUISITION_TIME))
        .or_else(|| set.text(tags::ACQUISITION_MOMENT));
    [
        groups.text(tags::SEGMENT_SEQUENCE, tags::SEGMENT_NUMBER),
        content(tags::TEMPORAL_INDEX).or_else(|| content(tags::TEMPORAL_POSITION)),
        echo,
        groups.text(tags::MR_MODIFIER, tags::INVERSION_TIME),
        diffusion.b_value.map(|b| format!("{b:?}")),
        kind(groups, set),
        diffusion.b_value.map(|_| {
            let v = diffusion.direction.unwrap_or_else(Vector3::zeros);
            format!("({:.6}, {:.6}, {:.6})", v.x, v.y, v.z)
        }),
        vector(tags::TIME_SLOTS).or_else(|| vector(tags::TIME_SLICES)),
        vector(tags::ENERGY_WINDOWS),
        dimension_index(groups, set),
        content(tags::TRIGGER_TIME),
        content(tags::ACQUISITION_NUMBER),
        acquired,
        moment(set, tags::CONTENT_DATE, tags::CONTENT_TIME),
    ]
}

/// How strongly, and along which direction, water was seen to move.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Diffusion {
    /// s/mm².
    pub(super) b_value: Option<f64>,
    /// Unit vector, LPS.
    pub(super) direction: Option<Vector3<f64>>,
}

impl Diffusion {
    /// By the standard's attributes, else by those of makers.
    pub(super) fn of(
        groups: &Groups<'_>,
        set: &DataSet,
        csa: Option<&Csa<'_>>,
        orientation: Option<&[Vector3<f64>; 2]>,
    ) -> Diffusion {
        let unit = |v: &[f64]| match v {
            &[x, y, z] => {
                let v = Vector3::new(x, y, z);
                let norm = v.norm();
                (norm > 0.5 && norm < 2.0).then(|| v / norm)
            }
            _ => None,
        };
        let own = |tag| set.numbers(tag).ok().filter(|v| !v.is_empty());
        // Of the standard's attributes, GE scanners write the b-value alone, and not in all files.
        if ge::made(set)
            && let Some(b) = ge::b_value(set)
        {
            let direction = ge::direction(set, orientation).filter(|_| b > 0.0);
            let direction = direction.and_then(|v| unit(v.as_slice()));
            return Diffusion { b_value: Some(b), direction };
        }
        let standard = groups.numbers(tags::DIFFUSION_SEQUENCE, tags::B_VALUE).unwrap_or_default();
        if let Some(&b) = standard.first() {
            let direction = groups
                .item(tags::DIFFUSION_SEQUENCE)
                .and_then(|item| item.item(tags::GRADIENT_SEQUENCE))
                .and_then(|item| item.numbers(tags::GRADIENT).ok())
                .or_else(|| own(tags::GRADIENT))
                .and_then(|v| unit(&v));
            return Diffusion { b_value: Some(b), direction };
        }
        let maker = set.text(tags::MANUFACTURER).unwrap_or_default().to_ascii_lowercase();
        let number = |v: Option<Vec<f64>>| v.and_then(|v| v.first().copied());
        if maker.contains("siemens") {
            let b = number(own(tags::SIEMENS_B)).or_else(|| number(csa?.numbers("B_value")));
            let direction = own(tags::SIEMENS_GRADIENT)
                .or_else(|| csa?.numbers("DiffusionGradientDirection"))
                .and_then(|v| unit(&v));
            Diffusion { b_value: b, direction }
        } else if maker.contains("philips") {
            let axes = [tags::PHILIPS_X, tags::PHILIPS_Y, tags::PHILIPS_Z].map(|t| number(own(t)));
            let direction = match axes {
                [Some(x), Some(y), Some(z)] => unit(&[x, y, z]),
                _ => None,
            };
            Diffusion { b_value: number(own(tags::PHILIPS_B)), direction }
        } else {
            Diffusion::default()
        }
    }
}

/// Volumes of frames of which several are at one place.
#[derive(Debug)]
pub(super) struct Volumes {
    /// For each volume the numbers of its frames, in the order of the places.
    pub(super) frames: Vec<Vec<usize>>,
    /// What distinguishes them.
    pub(super) by: Vec<&'static str>,
    /// What each has of that.
    pub(super) values: Vec<String>,
}

/// Frames by one distinction as numbers in the order of its values; nothing where a frame has none of it,
/// or all have the same.
fn ranks(frames: &[&Frame], distinction: usize) -> Option<Vec<usize>> {
    let mut values = BTreeMap::new();
    for frame in frames {
        values.insert(frame.distinctions[distinction].as_deref()?, 0);
    }
    if values.len() < 2 {
        return None;
    }
    let number = |text: &str| text.parse::<f64>().unwrap_or(f64::MAX);
    let mut sorted: Vec<&str> = values.keys().copied().collect();
    sorted.sort_by(|a, b| number(a).total_cmp(&number(b)).then_with(|| a.cmp(b)));
    for (rank, value) in sorted.into_iter().enumerate() {
        values.insert(value, rank);
    }
    frames.iter().map(|f| values.get(f.distinctions[distinction].as_deref()?).copied()).collect()
}

/// The frames of each combination of numbers, where each combination has one frame at every place.
fn split(places: &[Vec<usize>], ranks: &[&[usize]]) -> Option<Vec<Vec<usize>>> {
    let key = |i: usize| -> Vec<usize> { ranks.iter().map(|of| of[i]).collect() };
    let mut found: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
    for (n, at) in places.iter().enumerate() {
        for &i in at {
            let own = found.entry(key(i)).or_default();
            if own.len() != n {
                return None;
            }
            own.push(i);
        }
        if found.len() != at.len() {
            return None;
        }
    }
    Some(found.into_values().collect())
}

/// The volumes by the fewest distinctions that separate all frames at each place; at the last, by the
/// numbers of instances.
pub(super) fn volumes(frames: &[&Frame], places: &[Vec<usize>]) -> Option<Volumes> {
    let each = places[0].len();
    if places.iter().any(|at| at.len() != each) {
        return None;
    }
    let ranks: Vec<(usize, Vec<usize>)> =
        (0..DISTINCTIONS.len()).filter_map(|d| Some((d, ranks(frames, d)?))).collect();
    let mut sets: Vec<Vec<usize>> = (0..ranks.len()).map(|k| vec![k]).collect();
    for _ in 0..JOINED {
        for set in &sets {
            let of: Vec<&[usize]> = set.iter().map(|&k| &ranks[k].1[..]).collect();
            if let Some(found) = split(places, &of) {
                let by: Vec<usize> = set.iter().map(|&k| ranks[k].0).collect();
                return Some(named(frames, in_time(frames, found, &by), &by));
            }
        }
        sets = sets
            .iter()
            .flat_map(|set| {
                let next = set.last().map_or(0, |&k| k + 1);
                (next..ranks.len()).map(move |k| [&set[..], &[k]].concat())
            })
            .collect();
    }
    let mut found = vec![Vec::new(); each];
    for at in places {
        let mut sorted: Vec<(i64, usize)> =
            at.iter().map(|&i| Some((frames[i].instance_number?, i))).collect::<Option<_>>()?;
        sorted.sort_unstable();
        if sorted.windows(2).any(|w| w[0].0 == w[1].0) {
            return None;
        }
        found.iter_mut().zip(sorted).for_each(|(volume, (_, i))| volume.push(i));
    }
    let values = found.iter().map(|v| {
        let numbers = v.iter().filter_map(|&i| frames[i].instance_number);
        let ends = numbers.fold((i64::MAX, i64::MIN), |(a, b), n| (a.min(n), b.max(n)));
        format!("{} to {}", ends.0, ends.1)
    });
    let values = values.collect();
    Some(Volumes { frames: found, by: vec!["order of instance numbers"], values })
}

/// Volumes in the order in which they were acquired, where what distinguishes them follows time.
fn in_time(frames: &[&Frame], mut found: Vec<Vec<usize>>, by: &[usize]) -> Vec<Vec<usize>> {
    if !by.iter().any(|d| IN_TIME.contains(d)) || by.iter().any(|d| *d < IN_TIME[0]) {
        return found;
    }
    let first = |volume: &[usize], time: usize| {
        let times = volume.iter().map(|&i| frames[i].distinctions[time].as_deref());
        times.min().flatten().map(str::to_owned)
    };
    // Where times are the same for all, the numbers of instances follow them.
    let number =
        |volume: &[usize]| volume.iter().map(|&i| frames[i].instance_number).min().flatten();
    let known = TIMES.into_iter().find(|&time| {
        let times: Vec<Option<String>> = found.iter().map(|v| first(v, time)).collect();
        times.iter().all(Option::is_some) && times.windows(2).any(|w| w[0] != w[1])
    });
    match known {
        Some(time) => found.sort_by_key(|v| (first(v, time), number(v))),
        None => found.sort_by_key(|v| number(v)),
    }
    found
}

fn named(frames: &[&Frame], found: Vec<Vec<usize>>, by: &[usize]) -> Volumes {
    let value = |d: usize, i: usize| frames[i].distinctions[d].as_deref().unwrap_or_default();
    // What separates them first, then what else is one within each and another between them.
    let others = (0..DISTINCTIONS.len()).filter(|&d| {
        let one = |v: &Vec<usize>| v.iter().all(|&i| value(d, i) == value(d, v[0]));
        !by.contains(&d)
            && d < IN_TIME[0] - 2
            && found.iter().all(one)
            && found.iter().any(|v| value(d, v[0]) != value(d, found[0][0]))
    });
    let shown: Vec<usize> = by.iter().copied().chain(others).collect();
    let values = found.iter().map(|volume| {
        let all: Vec<String> = shown
            .iter()
            .enumerate()
            .map(|(n, &d)| {
                let name = if n == 0 && shown.len() == 1 { "" } else { DISTINCTIONS[d] };
                format!("{name} {}", value(d, volume[0])).trim().to_owned()
            })
            .collect();
        all.join(", ")
    });
    let values = values.collect();
    Volumes { values, by: by.iter().map(|&d| DISTINCTIONS[d]).collect(), frames: found }
}
