//! Destinations of results: standard output, or a file that is either the whole result or absent.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use pagetoll_backend::output;
use pagetoll_render::{Format, Kind, RenderError, Width, harmless};
use rustix::io::Errno;

use crate::args::{ListOutputArgs, OutputArgs};
use crate::failure::Failure;
use crate::terminal;

const FLAG: &str = "--output";

/// Destination and form of a result.
#[derive(Clone, Debug)]
pub(crate) struct Destination {
    pub(crate) format: Format,
    /// The file; `None` is standard output.
    pub(crate) file: Option<PathBuf>,
}

impl Destination {
    /// Checks that the bill can be written, which must not turn out after a minute of work.
    pub(crate) fn new(args: &OutputArgs, kind: Kind) -> Result<Self, Failure> {
        Self::of(args.format, args.output.as_deref(), kind)
    }

    /// Destination of a list, checked as that of a bill.
    pub(crate) fn of_list(args: &ListOutputArgs) -> Result<Self, Failure> {
        Self::of(args.format, args.output.as_deref(), Kind::List)
    }

    fn of(format: Option<Format>, file: Option<&Path>, kind: Kind) -> Result<Self, Failure> {
        check(FLAG, file)?;
        let format = match (format, file) {
            (Some(format), _) => format,
            (None, Some(file)) => format_of(file)?,
            (None, None) => Format::Text,
        };
        if !format.writes(kind) {
            let refused = RenderError::NotWritten { kind, format };
            return Err(Failure::BadInput(refused.to_string()));
        }
        Ok(Self {
            format,
            file: file.map(Path::to_owned),
        })
    }

    /// Width of the lines, where the format has any.
    pub(crate) fn width(&self) -> Width {
        match &self.file {
            Some(_) => Width::Unlimited,
            None => terminal::width(),
        }
    }

    /// Writes the result there.
    pub(crate) fn write(&self, text: &str) -> Result<(), Failure> {
        let is_seen = self.file.is_none() && self.format == Format::Text;
        if is_seen && terminal::has_colours() {
            return print(&pagetoll_render::text::painted(text));
        }
        write(text, self.file.as_deref())
    }

    /// The result of the work. When it failed, a file of an earlier run is moved to `FILE.old`: it must not be taken
    /// for this run's.
    pub(crate) fn unless_failed<T>(
        &self,
        work: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        UNFINISHED
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone_from(&self.file);
        let result = work();
        if result.is_err() {
            set_aside_unfinished()?;
        }
        result
    }
}

/// The file for the result of work that was begun.
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Moves the file of an earlier run to `FILE.old`, where work for that file was begun.
pub(crate) fn set_aside_unfinished() -> Result<(), Failure> {
    let unfinished = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(file) = &*unfinished else {
        return Ok(());
    };
    output::set_aside(file).map_err(|source| Failure::Output {
        to: file.display().to_string(),
        source,
    })
}

fn format_of(file: &Path) -> Result<Format, Failure> {
    let format =
        Format::from_path(file).map_err(|unknown| bad(FLAG, file, &unknown.to_string()))?;
    Ok(format.unwrap_or(Format::Text))
}

/// Checks that a file can be written.
pub(crate) fn check(flag: &str, output: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = output else { return Ok(()) };
    let folder = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => {
            return Err(bad(
                flag,
                path,
                "is not a file; expected a file in an existing folder",
            ));
        }
    };
    match (path.is_dir(), folder.is_dir()) {
        (true, _) => Err(bad(
            flag,
            path,
            "is a folder; expected a file in an existing folder",
        )),
        (_, false) => Err(bad(
            flag,
            path,
            "its folder does not exist; expected a file in an existing folder",
        )),
        _ => Ok(()),
    }
}

/// A file that cannot be written.
pub(crate) fn bad(flag: &str, path: &Path, problem: &str) -> Failure {
    Failure::BadInput(format!("{flag} {}: {problem}", path.display()))
}

/// Refuses a file where a folder is wanted.
pub(crate) fn check_folder(flag: &str, folder: Option<&Path>) -> Result<(), Failure> {
    match folder {
        Some(path) if path.exists() && !path.is_dir() => Err(Failure::BadInput(format!(
            "{flag} {}: is a file; expected a folder",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Writes `text` to a file, or to standard output where there is none.
///
/// A file is never half a result ([`output::replace`]). A reader who closed the pipe (`| head`) is no failure.
pub(crate) fn write(text: impl AsRef<[u8]>, file: Option<&Path>) -> Result<(), Failure> {
    let text = text.as_ref();
    let (to, result) = match file {
        Some(path) => (
            path.display().to_string(),
            output::replace(path, |file| file.write_all(text)),
        ),
        None => ("standard output".to_owned(), to_stdout(text)),
    };
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|source| Failure::Output { to, source }),
    }
}

/// Writes `text` to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    write(text, None)
}

/// Lines on their way to a terminal that no rendering made. What follows the last newline is not written.
pub(crate) struct HarmlessLines<W> {
    out: W,
    line: Vec<u8>,
}

impl<W> HarmlessLines<W> {
    pub(crate) const fn new(out: W) -> Self {
        let line = Vec::new();
        Self { out, line }
    }
}

impl<W: Write> Write for HarmlessLines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            self.line.extend_from_slice(text);
            if ends {
                let line = harmless(&String::from_utf8_lossy(&self.line));
                self.line.clear();
                writeln!(self.out, "{line}")?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn to_stdout(text: &[u8]) -> io::Result<()> {
    if STDOUT_IS_CLOSED.load(Ordering::Relaxed) {
        return Err(Errno::BADF.into());
    }
    let mut stdout = io::stdout().lock();
    stdout.write_all(text)?;
    stdout.flush()
}

/// Set when the program was started without a standard output (`>&-`). Before main, Rust's runtime opens /dev/null in its
/// place, to which a report would go without an error.
static STDOUT_IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// The C runtime calls what is in this section before main.
#[used]
#[allow(unsafe_code, reason = "a section is named")]
// SAFETY: the section is an array of pointers to functions of this type; the function needs nothing of the runtime.
#[unsafe(link_section = ".init_array")]
static LOOK_AT_STDOUT: extern "C" fn() = look_at_stdout;

extern "C" fn look_at_stdout() {
    let closed = rustix::io::fcntl_getfd(rustix::stdio::stdout()) == Err(Errno::BADF);
    STDOUT_IS_CLOSED.store(closed, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn lines_are_made_harmless_however_they_are_written() {
        let mut lines = HarmlessLines::new(Vec::new());
        let text = "a\u{1b}[2J\n\n\u{202e}b\n";
        for byte in text.as_bytes() {
            lines.write_all(&[*byte]).unwrap();
        }
        lines.write_all(text.as_bytes()).unwrap();
        let safe = "a\u{fffd}[2J\n\n\u{fffd}b\n";
        assert_eq!(String::from_utf8(lines.out).unwrap(), safe.repeat(2));
    }

    #[test]
    fn after_a_failed_run_no_earlier_result_can_be_taken_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("b.json");
        fs::write(&file, "earlier").unwrap();
        let destination = Destination {
            format: Format::Json,
            file: Some(file.clone()),
        };
        assert!(
            destination
                .unless_failed::<()>(|| Err(anyhow::anyhow!("no")))
                .is_err()
        );
        assert!(!file.exists());
        assert_eq!(
            fs::read_to_string(folder.path().join("b.json.old")).unwrap(),
            "earlier"
        );
    }

    #[test]
    fn the_format_follows_the_file_and_an_unknown_extension_is_refused() {
        let format = |file: &str| format_of(Path::new(file)).map_err(|error| error.to_string());
        assert_eq!(format("b.json"), Ok(Format::Json));
        assert_eq!(format("bill"), Ok(Format::Text));
        let refused = format("a.png").unwrap_err();
        assert!(
            refused.starts_with("--output a.png: unknown extension '.png': expected one of .txt"),
            "{refused}"
        );
    }

    #[test]
    fn an_output_that_cannot_be_written_is_refused_at_once() {
        let refused = |path: &str| check(FLAG, Some(Path::new(path))).unwrap_err().to_string();
        assert!(refused("no-such-folder/b").contains("folder does not exist"));
        assert!(refused(".").contains("is a folder"));
    }
}
