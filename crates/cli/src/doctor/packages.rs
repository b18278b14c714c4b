//! The mirror of Debian's kernels and Xen, for those who boot no files of their own.

use pagetoll_backend::Stop;
use pagetoll_host::Error;
use pagetoll_images::apt::Mirror;

use super::{Finding, Part, State};

/// The mirror, as apt's settings and the user's have it. Asks no network.
pub(super) fn finding() -> Finding {
    finding_of(Mirror::of_this_machine(&Stop::new()).map(|mirror| mirror.to_string()))
}

fn finding_of(mirror: Result<String, Error>) -> Finding {
    const NAME: &str = "Debian's packages";
    let (what, remedy) = match mirror {
        Ok(mirror) => return Finding::ok(NAME, mirror),
        Err(Error::Environment { what, remedy }) => (what, remedy),
        Err(error) => (
            error.to_string(),
            "boot files of your own by --kernel".into(),
        ),
    };
    let detail = format!("{what}: no kernel or Xen of Debian can be fetched");
    Finding::not_ok(NAME, State::Missing, &detail, &remedy).of_part(Part::Debian)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_mirror_debians_kernels_are_missing_and_others_are_not() {
        let error = Error::Environment {
            what: "no mirror".into(),
            remedy: "name one".into(),
        };
        let finding = finding_of(Err(error));
        assert_eq!(
            (finding.state, finding.part),
            (State::Missing, Part::Debian)
        );
        assert_eq!(finding.remedy.as_deref(), Some("name one"));
        let found = finding_of(Ok("http://mirror.example/debian bookworm".into()));
        assert_eq!(found.state, State::Ok);
    }
}
