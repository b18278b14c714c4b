//! How a capture and a comparison are printed.

use pagetoll_advice::Advice;
use pagetoll_captures::{Change, Comparison, Pair, Side};
use pagetoll_observation::{Capture, Group, Item, Others, Party, Values, Volume};
use pagetoll_render::document::{Document, Fact, Section};
use pagetoll_render::table::{Column, NONE, Table};

use super::super::advise::remedy;
use super::Read;

/// Functions that are named of each event.
const MOST_PLACES: usize = 8;
/// Changes that are printed: the largest.
const MOST_CHANGES: usize = 40;

/// A capture.
pub(super) fn of(read: &Read<'_>) -> Document {
    let observation = read.observation;
    let capture = &observation.capture;
    let mut sections = vec![
        Section::facts("", facts(capture)),
        Section::table("Log volume", volumes(&capture.cpus)),
    ];
    let summed = read.summed.as_ref();
    for party in summed.map_or(&observation.parties, |summed| &summed.parties) {
        sections.push(Section::table(title(party), events(party)));
        sections.push(Section::table(
            format!("{}, by value", party.name),
            buckets(party),
        ));
        sections.push(Section::table(
            format!("{}, by function", party.name),
            places(party),
        ));
    }
    let others = summed.and_then(|summed| summed.others.as_ref());
    let others = others.map(not_shown).into_iter().collect();
    sections.push(Section::list("Not shown: --threads shows them", others));
    sections.push(Section::list("Advice", summary(read)));
    Document {
        title: format!("read {}", capture.file),
        sections,
    }
}

/// `8790 other threads of 412 names: flushes 12345`.
fn not_shown(others: &Others) -> String {
    let Others {
        threads,
        names,
        events,
    } = others;
    let events = events.iter();
    let events: Vec<_> = events
        .map(|(group, count)| format!("{} {count}", group.title()))
        .collect();
    let plural = if *names == 1 { "" } else { "s" };
    format!(
        "{threads} other threads of {names} name{plural}: {}",
        events.join(", ")
    )
}

/// A line for each rule, and where the rest is.
fn summary(read: &Read<'_>) -> Vec<String> {
    let line = |one: &Advice<'_>| {
        let found = one.found.first().map(ToString::to_string);
        let found = found.unwrap_or_default();
        let provided = match one.provided.as_slice() {
            [] => String::new(),
            unknown => format!(", provided {}", unknown.join(", ")),
        };
        format!(
            "{}, {}: {found}{provided}: {}",
            one.rule, one.subject, one.act
        )
    };
    let undecided = read.undecided.iter().map(|rule| {
        let remedy = remedy(rule);
        format!(
            "{}, {}: cannot judge: record {remedy}",
            rule.rule, rule.subject
        )
    });
    let mut lines: Vec<_> = read.advice.iter().map(line).chain(undecided).collect();
    if !lines.is_empty() {
        lines.push("what each gives, and when it does not hold: pagetoll advise FILE".to_owned());
    }
    lines
}

pub(super) fn facts(capture: &Capture) -> Vec<Fact> {
    let lost = match capture.lost {
        0 => "none".to_owned(),
        lost => format!("{lost}: every count is too low"),
    };
    let mut facts = vec![
        Fact::new("format", capture.format.as_ref()),
        Fact::new(
            "evidence",
            "observed: counted in what was recorded elsewhere",
        ),
        Fact::new("lost records", lost),
    ];
    let kernel = capture.kernel.iter();
    facts.extend(kernel.map(|release| Fact::new("kernel", format!("Linux {release}"))));
    facts.extend(
        capture
            .truncated
            .as_ref()
            .map(|why| Fact::new("cut off", why)),
    );
    let unknown = capture.unknown.iter();
    facts.extend(unknown.map(|(event, count)| Fact::new("unknown", format!("{event}: {count}"))));
    let left_out = capture
        .left_out
        .first
        .iter()
        .map(|first| match capture.left_out.lines {
            1 => first.to_string(),
            lines => format!("{lines} lines that are of no capture, the first {first}"),
        });
    facts.extend(left_out.map(|lines| Fact::new("left out", lines)));
    let unreadable = capture.first_unreadable.iter();
    facts.extend(unreadable.map(|first| Fact::new("lacks a field", first.as_str())));
    facts
}

fn volumes(cpus: &[Volume]) -> Table {
    let mut table = Table::new([
        Column::right("cpu"),
        Column::right("records"),
        Column::right("lost"),
        Column::left("bytes by class"),
    ]);
    for volume in cpus {
        let bytes = volume.bytes.iter();
        let bytes: Vec<_> = bytes
            .map(|(class, bytes)| format!("{class} {bytes}"))
            .collect();
        table.row([
            volume.cpu.to_string(),
            volume.records.to_string(),
            volume.lost.to_string(),
            bytes.join(", "),
        ]);
    }
    table
}

fn title(party: &Party) -> String {
    let Some(unit) = party.unit else {
        return party.name.clone();
    };
    let work = format!("{}: {}: {}", party.name, unit.name, unit.count);
    match party.nanos_per_unit {
        Some(nanos) => format!("{work}, one each {nanos:.0} ns"),
        None => work,
    }
}

fn events(party: &Party) -> Table {
    let mut table = Table::new([
        Column::left("kind"),
        Column::left("event"),
        Column::right("count"),
    ]);
    let items = &party.items;
    for item in items {
        table.row([
            item.group.title().to_owned(),
            name(item),
            or_none(
                number(item, |values| values.value)
                    .is_none()
                    .then_some(item.count),
            ),
        ]);
    }
    for (title, figure) in VALUES {
        if items.iter().any(|item| number(item, figure).is_some()) {
            let title = Column::right(in_unit(title, items));
            table.each(items, title, |item| or_none(number(item, figure)));
        }
    }
    if let Some(unit) = party.unit {
        let title = Column::right(format!("per {}", unit.name));
        table.each(items, title, |item| or_none(item.per_unit.map(rate)));
    }
    if items.iter().any(|item| party.per_second(item).is_some()) {
        table.each(items, Column::right("a second"), |item| {
            or_none(party.per_second(item).map(a_second))
        });
    }
    if items.iter().any(|item| item.pages.is_some()) {
        table.each(items, Column::right("pages"), |item| or_none(item.pages));
    }
    if items.iter().any(|item| item.adjacent > 0) {
        let next = |item: &Item| or_none((item.adjacent > 0).then_some(item.adjacent));
        table.each(items, Column::right("next page"), next);
    }
    if items.iter().any(|item| item.nanos.is_some()) {
        table.each(items, Column::right("ns each"), |item| {
            or_none(item.mean_nanos())
        });
    }
    if items.iter().any(|item| item.ticks.is_some()) {
        table.each(items, Column::right("ticks each"), |item| {
            or_none(item.mean_ticks())
        });
    }
    if items.iter().any(|item| item.cycles.is_some()) {
        table.each(items, Column::right("cycles each"), |item| {
            or_none(item.mean_cycles())
        });
    }
    footnotes(&mut table, party);
    table
}

fn footnotes(table: &mut Table, party: &Party) {
    if party.continuations > 0 {
        table.footnote(format!(
            "{} of the hypercalls are continuations, which Xen makes of preempted ones",
            party.continuations
        ));
    }
    if let Some(seconds) = party.seconds {
        table.footnote(format!("counted in {seconds:.3} s"));
    }
    if party.items.iter().any(|item| item.per_second.is_some()) {
        table.footnote("a second: as the tool printed it, in its last interval; count: since it began, or the VM");
    }
    for item in &party.items {
        if let Some(timed) = item.timed {
            let unit = match (item.cycles, item.ticks) {
                (Some(_), _) => "cycles",
                (_, Some(_)) => "ticks",
                _ => "ns",
            };
            table.footnote(format!(
                "{unit} each of {}: of the {timed} of {} whose end is in the capture",
                item.name, item.count
            ));
        }
    }
    if party.items.iter().any(|item| item.ticks.is_some()) {
        table
            .footnote("ticks: of the clock that the trace was recorded by, which it does not name");
    }
    if party
        .items
        .iter()
        .any(|item| number(item, |values| values.value).is_some())
    {
        table.footnote(
            "value: a count, a sum, a mean, an extreme or an address; the script alone knows",
        );
    }
    if party.items.iter().any(|item| item.adjacent > 0) {
        table.footnote("next page: it followed the page that was mapped before it");
    }
    if party.items.iter().any(|item| item.group == Group::Subcalls) {
        table.footnote(
            "hypercalls: those made; subcalls: those inside multicalls; xenalyze prints both together",
        );
    }
}

fn or_none(figure: Option<impl ToString>) -> String {
    figure.map_or_else(|| NONE.to_owned(), |figure| figure.to_string())
}

fn rate(per_unit: f64) -> String {
    format!("{per_unit:.4}")
}

/// A map without keys has one value, which has no name.
fn name(item: &Item) -> String {
    or_none((!item.name.is_empty()).then_some(&item.name))
}

/// Figure that a script kept of an event's values.
type Figure = fn(&Values) -> Option<i128>;

/// Columns of what a script kept.
const VALUES: [(&str, Figure); 3] = [
    ("value", |values| values.value),
    ("mean", |values| values.mean),
    ("total", |values| values.total),
];

fn number(item: &Item, figure: Figure) -> Option<i128> {
    item.values.as_deref().and_then(figure)
}

/// A title with the unit of the values, where it is known.
fn in_unit(title: &str, items: &[Item]) -> String {
    let mut units = items
        .iter()
        .filter_map(|item| item.values.as_ref()?.value_unit);
    match units.next() {
        Some(unit) => format!("{title}, {unit}"),
        None => title.to_owned(),
    }
}

/// Ranges of values that are not empty.
fn buckets(party: &Party) -> Table {
    let mut table = Table::new([
        Column::left("event"),
        Column::right(in_unit("from", &party.items)),
        Column::right(in_unit("to", &party.items)),
        Column::right("count"),
    ]);
    for item in &party.items {
        for bucket in item.buckets.iter().filter(|bucket| bucket.count > 0) {
            table.row([
                name(item),
                or_none(bucket.from),
                or_none(bucket.to),
                bucket.count.to_string(),
            ]);
        }
    }
    table
}

/// A rate of the tool is a whole number; a mean has a decimal.
fn a_second(rate: f64) -> String {
    match rate.fract() == 0.0 {
        true => format!("{rate:.0}"),
        false => format!("{rate:.1}"),
    }
}

fn places(party: &Party) -> Table {
    let mut table = Table::new([
        Column::left("event"),
        Column::left("function"),
        Column::right("count"),
    ]);
    for item in &party.items {
        for row in rows_of(item) {
            table.row(row);
        }
    }
    table
}

fn rows_of(item: &Item) -> impl Iterator<Item = [String; 3]> {
    let row = |name: &str, count: u64| [item.name.clone(), name.to_owned(), count.to_string()];
    let (named, others) = item.places.split_at(item.places.len().min(MOST_PLACES));
    let rest: u64 = others.iter().map(|place| place.count).sum();
    let more = format!("({} more)", others.len());
    let named: Vec<_> = named
        .iter()
        .map(|place| row(&place.name, place.count))
        .collect();
    named
        .into_iter()
        .chain((rest > 0).then(|| row(&more, rest)))
}

/// Two captures; what is more often, or takes longer, by more than this share is marked.
pub(super) fn of_comparison(comparison: &Comparison, tolerance: f64) -> Document {
    let Comparison {
        files,
        pairs,
        left_out,
    } = comparison;
    let mut facts = Vec::new();
    for (file, names) in files.iter().zip(left_out) {
        if !names.is_empty() {
            facts.push(Fact::new(
                "not compared",
                format!("{file}: {}", some(names)),
            ));
        }
    }
    let mut sections = vec![Section::facts("", facts)];
    for pair in pairs {
        sections.extend(of_pair(pair, files, tolerance));
    }
    Document {
        title: format!("read {} {}", files[0], files[1]),
        sections,
    }
}

/// Names, and how many more there are.
fn some(names: &[String]) -> String {
    let (named, others) = names.split_at(names.len().min(MOST_PLACES));
    let more = (!others.is_empty()).then(|| format!("{} more", others.len()));
    let named: Vec<_> = named.iter().cloned().chain(more).collect();
    named.join(", ")
}

fn of_pair(pair: &Pair, files: &[String; 2], tolerance: f64) -> [Section; 3] {
    let side = |index: usize| {
        let party = format!("{}: {}", files[index], pair.parties[index]);
        let work = pair.units.map(|units| units[index]);
        let work = work.map(|unit| format!(", {}: {}", unit.name, unit.count));
        let nanos = pair.nanos_per_unit[index].map(|nanos| format!(", one each {nanos:.0} ns"));
        [Some(party), work, nanos]
            .into_iter()
            .flatten()
            .collect::<String>()
    };
    let mut facts = vec![Fact::new("before", side(0)), Fact::new("after", side(1))];
    if pair.differ {
        let note = "parties of different names are compared: their work may be another";
        facts.push(Fact::new("note", note));
    }
    if pair.units.is_none() {
        let note = "no work is counted: times are compared, of each occurrence; counts are not";
        facts.push(Fact::new("note", note));
    }
    let (functions, events): (Vec<_>, Vec<_>) = pair
        .changes
        .iter()
        .partition(|change| change.place.is_some());
    let title = pair.units.map_or("occurrence", |units| units[0].name);
    [
        Section::facts("", facts),
        Section::table(format!("For each {title}"), changes(&events, tolerance)),
        Section::table("By function", changes(&functions, tolerance)),
    ]
}

fn verdict(change: &Change, tolerance: f64) -> String {
    let verdicts = [
        (change.is_more_than(tolerance), "more"),
        (change.is_less_than(tolerance), "less"),
        (change.is_slower_than(tolerance), "slower"),
        (change.is_faster_than(tolerance), "faster"),
    ];
    let verdicts = verdicts.iter().filter(|(is_so, _)| *is_so);
    let words: Vec<_> = verdicts.map(|(_, word)| *word).collect();
    words.join(", ")
}

fn changes(changes: &[&Change], tolerance: f64) -> Table {
    let shown = &changes[..changes.len().min(MOST_CHANGES)];
    let mut table = Table::new([Column::left("kind").rank(1), Column::left("event")]);
    for change in shown {
        let name = match &change.place {
            Some(place) => format!("{} in {place}", change.name),
            None => change.name.clone(),
        };
        table.row([change.group.title().to_owned(), name]);
    }
    let each = |title: &str| Column::right(title);
    let count = |side: &Side| side.per_unit.map_or_else(|| side.count.to_string(), rate);
    table.each(shown, each("before"), |change| count(&change.before));
    table.each(shown, each("after"), |change| count(&change.after));
    if shown.iter().any(|change| change.difference().is_some()) {
        let difference = |change: &&Change| change.difference().map(|by| format!("{by:+.4}"));
        table.each(shown, each("change"), |change| or_none(difference(change)));
    }
    table.each(shown, Column::left("verdict"), |change| {
        verdict(change, tolerance)
    });
    let per_unit = |side: &Side| or_none(side.nanos_per_unit.map(|nanos| format!("{nanos:.0}")));
    let has = |change: &&Change| [change.before, change.after].map(|side| side.nanos_per_unit);
    if shown.iter().flat_map(has).any(|nanos| nanos.is_some()) {
        table.each(shown, each("ns before"), |change| per_unit(&change.before));
        table.each(shown, each("ns after"), |change| per_unit(&change.after));
    }
    let nanos = |side: &Side| or_none(side.nanos_each.map(|nanos| format!("{nanos:.0}")));
    if shown.iter().any(|change| change.time_ratio().is_some()) {
        if shown.iter().all(|change| change.difference().is_none()) {
            table.each(shown, each("ns each before"), |change| {
                nanos(&change.before)
            });
            table.each(shown, each("ns each after"), |change| nanos(&change.after));
        }
        let ratio = |change: &&Change| change.time_ratio().map(|ratio| format!("{ratio:.2}x"));
        table.each(shown, each("time each"), |change| or_none(ratio(change)));
    }
    if changes.len() > MOST_CHANGES {
        table.footnote(format!(
            "{} smaller changes are not shown",
            changes.len() - MOST_CHANGES
        ));
    }
    table
}
