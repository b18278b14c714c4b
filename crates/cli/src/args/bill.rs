//! Arguments of `pagetoll bill ROUTE`: every route parses the options of a [`Spec`]; the help of each shows those that
//! apply to it, and on which backends. [`pagetoll_bill::options`] refuses the others by name.

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, Subcommand};
use pagetoll_bill::{Backend, Opt, Route, Spec};

use super::OutputArgs;

const CSV: &str = "\
CSV has one line for each row and one column for each scalar, named as in JSON: docs/reading-a-bill.md.";

const WATCH: &str = "watch";

/// An order of a bill, with its route as the subcommand.
#[derive(Debug)]
pub(crate) struct BillArgs {
    pub(crate) spec: Spec,
    /// Options of the spec that were given.
    pub(crate) given: Vec<Opt>,
    pub(crate) on: Option<Backend>,
    pub(crate) output: OutputArgs,
}

/// An order of the route `count`, as a command of its own.
#[derive(Debug)]
pub(crate) struct CountArgs {
    pub(crate) bill: BillArgs,
    /// Count again whenever a file changes.
    pub(crate) watch: bool,
}

impl FromArgMatches for CountArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self {
            bill: BillArgs::of_route(Route::Count, matches)?,
            watch: matches.get_flag(WATCH),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for CountArgs {
    fn augment_args(command: Command) -> Command {
        let watch = Arg::new(WATCH).long(WATCH).action(ArgAction::SetTrue).help(
            "Count again whenever the kernel, a --file or a file that the command names changes",
        );
        RouteArgs::augment_args(command)
            .mut_args(|arg| for_route(arg, Route::Count))
            .arg(watch)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Arguments of every route.
#[derive(Debug, Args)]
struct RouteArgs {
    /// Run on this backend [default: the one with the best evidence]
    #[arg(long, value_name = "BACKEND")]
    on: Option<Backend>,
    #[command(flatten)]
    spec: Spec,
    #[command(flatten)]
    output: OutputArgs,
}

impl FromArgMatches for BillArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let (route, matches) = matches
            .subcommand()
            .and_then(|(name, matches)| Some((name.parse().ok()?, matches)))
            .ok_or_else(|| Error::new(ErrorKind::MissingSubcommand))?;
        Self::of_route(route, matches)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl BillArgs {
    fn of_route(route: Route, matches: &ArgMatches) -> Result<Self, Error> {
        let args = RouteArgs::from_arg_matches(matches)?;
        Ok(Self {
            spec: Spec { route, ..args.spec },
            given: given(matches),
            on: args.on,
            output: args.output,
        })
    }
}

impl Subcommand for BillArgs {
    fn augment_subcommands(bill: Command) -> Command {
        bill.subcommands(Route::ALL.iter().map(|&route| command(route)))
    }

    fn augment_subcommands_for_update(bill: Command) -> Command {
        Self::augment_subcommands(bill)
    }

    fn has_subcommand(name: &str) -> bool {
        name.parse::<Route>().is_ok()
    }
}

fn given(matches: &ArgMatches) -> Vec<Opt> {
    let on_command_line =
        |option: &Opt| matches.value_source(option.name) == Some(ValueSource::CommandLine);
    Opt::all().filter(on_command_line).collect()
}

fn command(route: Route) -> Command {
    RouteArgs::augment_args(Command::new(route.name()))
        .about(capitalised(route.summary()))
        .after_long_help(format!("{}\n\n{CSV}", route.examples()))
        .mut_args(|arg| for_route(arg, route))
}

/// An argument as the help of a route shows it: hidden where it does not apply, with the backends where its heading does
/// not say them.
fn for_route(arg: Arg, route: Route) -> Arg {
    if arg.get_id() == "words" {
        return arg.hide(route != Route::Count);
    }
    let Some(option) = Opt::find(arg.get_id().as_str()) else {
        return arg;
    };
    let backends = option.backends(route);
    let names: Vec<_> = backends.iter().map(|backend| backend.name()).collect();
    let names = names.join(", ");
    let heading = format!("With --on {names}");
    let is_said = backends.len() == Backend::ALL.len() || arg.get_help_heading() == Some(&heading);
    match arg.get_help().cloned() {
        Some(help) if !is_said => arg.help(format!("{help} ({names})")),
        _ => arg,
    }
    .hide(backends.is_empty())
}

fn capitalised(summary: &str) -> String {
    let mut letters = summary.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}
