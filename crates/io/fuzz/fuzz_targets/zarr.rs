//! A chunk of an array, by every codec: which the first byte of the input chooses; its other bits are flags. What follows
//! is the chunk, of a shard with its index.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use voxalign_io_fuzz::zarr;

static FOLDER: OnceLock<PathBuf> = OnceLock::new();

/// Metadata of an array of the third version with each codec.
fn array(codec: &str) -> String {
    format!(
        r#"{{"zarr_format": 3, "node_type": "array", "shape": [40, 50], "data_type": "uint16", "fill_value": 7,
        "chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": [40, 60]}}}},
        "chunk_key_encoding": {{"name": "default"}}, "codecs": [{codec}]}}"#
    )
}

const BYTES: &str = r#"{"name": "bytes", "configuration": {"endian": "little"}}"#;

fn folder() -> &'static PathBuf {
    FOLDER.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("voxalign-zarr-{}", std::process::id()));
        let shard = format!(
            r#"{{"name": "sharding_indexed", "configuration": {{"chunk_shape": [20, 30], "codecs": [{BYTES}, "gzip"],
            "index_codecs": [{BYTES}, {{"name": "crc32c"}}], "index_location": "end"}}}}"#
        );
        let packed = ["blosc", "zstd", "gzip", "numcodecs.lz4", "numcodecs.zlib", "crc32c"];
        let packed = packed.iter().map(|name| format!(r#"{BYTES}, {{"name": "{name}"}}"#));
        for (number, codec) in packed.chain([shard]).enumerate() {
            let image = folder.join(number.to_string());
            write(&image.join("0/zarr.json"), array(&codec).as_bytes());
            let said = r#"{"zarr_format": 3, "node_type": "group", "attributes": {"ome": {"version": "0.5", "multiscales":
                [{"axes": [{"name": "y", "type": "space"}, {"name": "x", "type": "space"}], "datasets": [{"path": "0",
                "coordinateTransformations": [{"type": "scale", "scale": [1, 1]}]}]}]}}}"#;
            write(&image.join("zarr.json"), said.as_bytes());
        }
        folder
    })
}

fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder can be made");
    fs::write(path, bytes).expect("a file can be written");
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, chunk)) = bytes.split_first() else { return };
    let image = folder().join((kind % 7).to_string());
    write(&image.join("0/c/0/0"), chunk);
    zarr(&image);
});
