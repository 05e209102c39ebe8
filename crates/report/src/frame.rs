//! The frame of a page without a script, and the facts of a machine.

use crate::html::{bytes, escape, shell, table};
use crate::record::HostRecord;

/// A page without a script, up to its contents: title, device and program.
pub(crate) fn head(title: &str, program: &str, host: &HostRecord) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         img-src data:; style-src 'unsafe-inline'\">\
         <title>{title} on {device}</title><style>{}</style></head><body>\
         <div class=\"page\"><header><h1>{title}</h1><p>{device}</p><p>{}</p></header><main>",
        include_str!("style.css"),
        escape(program),
        title = escape(title),
        device = escape(&host.device),
    )
}

/// The end of the page: machine and command.
pub(crate) fn end(host: &HostRecord, command: &[String]) -> String {
    let command = match command {
        // A library was called.
        [] => String::new(),
        command => format!(
            "<section><h2>Command</h2><div class=\"code\"><pre>{}</pre></div></section>",
            escape(&shell(command))
        ),
    };
    format!(
        "<section><h2>Machine</h2>{}</section>{command}</main></div></body></html>\n",
        table("facts", &["Fact", "Value"], &machine_facts(host)),
    )
}

/// The facts of a machine and its device, as rows of a table.
pub(crate) fn machine_facts(host: &HostRecord) -> Vec<Vec<String>> {
    let fact = |name: &str, value: &str| vec![name.to_owned(), escape(value)];
    let mut rows = vec![fact("Device", &host.device)];
    if let Some(gpu) = &host.gpu {
        let release = gpu.driver.as_ref().map_or_else(String::new, |r| format!("{r}, "));
        rows.extend([
            fact("Compute capability", &gpu.compute_capability),
            fact("GPU memory", &bytes(gpu.memory_bytes)),
            fact("Driver", &format!("{release}CUDA {}", gpu.driver_cuda)),
            fact("Compiler of kernels", &format!("NVRTC {}", gpu.nvrtc)),
        ]);
    }
    rows.push(fact("Threads", &host.threads.to_string()));
    rows.push(fact("Vector instructions", &host.simd));
    rows
}
