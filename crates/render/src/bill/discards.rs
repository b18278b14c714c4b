//! Discarded memory: what is free and what goes with it in sentences, and a line for each call on each backing.

use pagetoll_bill::row::{Backing, Discarded, Found, Frees, Method};
use pagetoll_bill::{Bill, Operation, Route, Row};

use crate::document::Section;
use crate::figure;
use crate::table::{Column, Table};
use crate::unique::unique;

const FOOTNOTE: &str = "Chunk: memory of one call. Held: by the host, once the calls have returned; later: of that, until memory is \
     short; RSS: what the resident set size lost. Taken and beside: pages that KVM unmapped for a single call, all and those \
     outside its range; faults beside: of a guest that runs meanwhile, in the lab afterwards. Beside, present: touches of what was not discarded, after \
     the calls and before them. Cleared: when the host clears the page; a guest that clears it, too, does so a second time.";

/// Nothing of a bill of another route.
pub(super) fn sections(bill: &Bill) -> Vec<Section> {
    if bill.route != Route::Discard {
        return Vec::new();
    }
    let discards = discards(bill);
    let mut sentences = freed(&discards);
    sentences.extend(beside(&discards));
    sentences.extend(not_cleared(&discards));
    let mut table = table(&discards, figure::unit(bill.unit));
    table.footnote(FOOTNOTE);
    vec![
        Section::list("What is free, and what goes with it", sentences),
        Section::table(
            format!("Each call on each backing, {}", figure::unit_per_item(bill)),
            table,
        ),
        Section::list("Calls without figures", without_figures(bill)),
    ]
}

/// Title of a column, its rank, and the figure in it.
type Figure<T> = (&'static str, u8, fn(&Discarded) -> T);

/// The rows of one call on one backing in chunks of a size.
struct Discard<'a> {
    calls: &'a Row,
    figures: &'a Discarded,
    beside: Option<&'a Row>,
    again: Option<&'a Row>,
}

impl Discard<'_> {
    const fn backing(&self) -> Option<Backing> {
        self.calls.key.backing
    }

    const fn call(&self) -> Method {
        self.calls.key.method
    }

    fn chunk(&self) -> String {
        chunk(self.calls.key.batch)
    }
}

fn discards(bill: &Bill) -> Vec<Discard<'_>> {
    let at = |row: &Row, operation| {
        let mut key = row.key.clone();
        key.operation = operation;
        bill.rows.iter().find(|row| row.key == key)
    };
    let of_row = |row| {
        let figures = Row::figures(row)?.discarded.as_ref()?;
        Some(Discard {
            calls: row,
            figures,
            beside: at(row, Operation::TouchBeside),
            again: at(row, Operation::TouchAgain),
        })
    };
    bill.rows.iter().filter_map(of_row).collect()
}

/// `4K`, `64K`, `2M`.
fn chunk(batch: u32) -> String {
    match u64::from(batch) * 4 {
        kib if kib.is_multiple_of(1024) => format!("{}M", kib / 1024),
        kib => format!("{kib}K"),
    }
}

fn table(discards: &[Discard<'_>], unit: &str) -> Table {
    let mut table = Table::default();
    let backing = |one: &Discard<'_>| figure::optional(one.backing());
    table.each(discards, Column::left("backing"), backing);
    table.each(discards, Column::left("call"), |one| one.call().to_string());
    table.each(discards, Column::right("chunk"), Discard::chunk);
    table.each(discards, Column::right(format!("call, {unit}")), |one| {
        figure::cost_of(one.calls)
    });
    add_freed(&mut table, discards);
    add_stage2(&mut table, discards);
    let cost = |row: Option<&Row>| figure::optional(row.and_then(Row::cost).map(figure::cost));
    table.each(
        discards,
        Column::right(format!("beside, {unit}")).rank(5),
        |one| cost(one.beside),
    );
    table.each(discards, Column::right("present").rank(1), |one| {
        let toll = one.beside.and_then(|row| row.tolls().first());
        figure::optional(toll.map(|toll| figure::cost(toll.cost_per_page())))
    });
    table.each(
        discards,
        Column::right(format!("again, {unit}")).rank(10),
        |one| cost(one.again),
    );
    table.each(discards, Column::left("comes back with").rank(11), |one| {
        found(one.figures.found)
    });
    table.each(discards, Column::left("cleared").rank(4), |one| {
        one.figures.cleared.to_string()
    });
    table
}

fn add_freed(table: &mut Table, discards: &[Discard<'_>]) {
    table.each(discards, Column::left("frees"), |one| {
        one.figures.frees.to_string()
    });
    let shares: [Figure<f64>; 3] = [
        ("held", 6, |figures| figures.held),
        ("later", 2, |figures| figures.freed_later),
        ("RSS", 7, |figures| figures.rss),
    ];
    for (title, rank, share) in shares {
        table.each(discards, Column::right(title).rank(rank), |one| {
            figure::percent(share(one.figures))
        });
    }
}

fn add_stage2(table: &mut Table, discards: &[Discard<'_>]) {
    let pages: [Figure<Option<f64>>; 3] = [
        ("taken", 3, |figures| figures.taken_per_call),
        ("beside", 9, |figures| figures.beside_per_call),
        ("faults beside", 8, |figures| figures.faults_beside_per_call),
    ];
    for (title, rank, value) in pages {
        table.each(discards, Column::right(title).rank(rank), |one| {
            figure::optional(value(one.figures).map(pages_of_a_call))
        });
    }
}

fn pages_of_a_call(pages: f64) -> String {
    figure::fixed(pages, usize::from(pages.fract() != 0.0))
}

fn found(found: Found) -> String {
    match found {
        Found::Zeroes => "zeroes",
        Found::Old => "old words",
        Found::File => "the file's words",
        Found::Mixed => "several",
    }
    .to_owned()
}

/// A sentence for each verdict, and one on page cache.
fn freed(discards: &[Discard<'_>]) -> Vec<String> {
    let verdicts = [
        (Frees::Nothing, "frees nothing"),
        (Frees::Later, "frees once memory is short"),
        (Frees::Part, "frees a part"),
        (Frees::All, "frees all"),
    ];
    let sentence = |(verdict, words)| {
        let listed = listed(discards, |one| one.figures.frees == verdict);
        listed.map(|listed| format!("{words}: {listed}"))
    };
    let stays = |one: &Discard<'_>| one.figures.page_cache.is_some_and(|share| share > 0.0);
    let cache = listed(discards, stays);
    let cache = cache.map(|listed| format!("page cache of the file stays: {listed}"));
    let sentences = verdicts.into_iter().filter_map(sentence);
    sentences.chain(cache).collect()
}

/// A sentence for each chunk with which more than it is taken.
fn beside(discards: &[Discard<'_>]) -> Vec<String> {
    let pages = |one: &Discard<'_>| one.figures.beside_per_call.filter(|pages| *pages > 0.0);
    let amounts = discards.iter().filter_map(|one| {
        let pages = pages(one).map(pages_of_a_call)?;
        Some((one.calls.key.batch, pages))
    });
    let sentence = |(batch, amount): (u32, String)| {
        let is_there = |one: &Discard<'_>| {
            one.calls.key.batch == batch && pages(one).map(pages_of_a_call) == Some(amount.clone())
        };
        let there: Vec<&Discard<'_>> = discards.iter().filter(|one| is_there(one)).collect();
        let calls = unique(there.iter().map(|one| one.call())).into_iter();
        let calls = calls.map(|call| {
            let backings = there.iter().filter(|one| one.call() == call);
            let backings = backings.map(|one| figure::optional(one.backing()));
            format!("{call} on {}", backings.collect::<Vec<_>>().join(", "))
        });
        let calls = calls.collect::<Vec<_>>().join("; ");
        let chunk = chunk(batch);
        format!("a call of {chunk} takes {amount} pages of stage 2 beside: {calls}")
    };
    unique(amounts).into_iter().map(sentence).collect()
}

/// Sentences on discards after which the guest finds words.
fn not_cleared(discards: &[Discard<'_>]) -> Vec<String> {
    let kinds = [
        (Found::Old, "comes back with the guest's old words"),
        (Found::File, "comes back with the file's words"),
        (Found::Mixed, "comes back with more than one content"),
    ];
    let sentence = |(kind, words)| {
        let listed = listed(discards, |one| one.figures.found == kind);
        listed.map(|listed| format!("{words}: {listed}"))
    };
    kinds.into_iter().filter_map(sentence).collect()
}

/// `memfd by madv-dontneed, map-fixed; hugetlb-2m by punch-hole in chunks of 4K`, of those that are wanted; chunks are named
/// where not all are.
fn listed(discards: &[Discard<'_>], is_wanted: impl Fn(&Discard<'_>) -> bool) -> Option<String> {
    let wanted: Vec<&Discard<'_>> = discards.iter().filter(|one| is_wanted(one)).collect();
    let call = |backing, method| {
        let here = |one: &&Discard<'_>| one.call() == method && one.backing() == backing;
        let chunks: Vec<String> = wanted
            .iter()
            .copied()
            .filter(here)
            .map(Discard::chunk)
            .collect();
        let all = discards.iter().filter(here).count();
        match chunks.len() == all {
            true => method.to_string(),
            false => format!("{method} of {}", chunks.join(", ")),
        }
    };
    let backings = unique(wanted.iter().map(|one| one.backing()));
    let parts = backings.into_iter().map(|backing| {
        let here = wanted.iter().filter(|one| one.backing() == backing);
        let methods = unique(here.map(|one| one.call()));
        let calls: Vec<String> = methods
            .into_iter()
            .map(|method| call(backing, method))
            .collect();
        format!("{} by {}", figure::optional(backing), calls.join(", "))
    });
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// A line for each reason: `madv-free on memfd, guest-memfd: ...`.
fn without_figures(bill: &Bill) -> Vec<String> {
    let calls = bill
        .rows
        .iter()
        .filter(|row| row.key.operation == Operation::Discard);
    let calls: Vec<&Row> = calls.collect();
    let reasons = unique(calls.iter().filter_map(|row| row.why_unavailable()));
    let line = |reason: &str| {
        let here = calls
            .iter()
            .copied()
            .filter(|row| row.why_unavailable() == Some(reason));
        let here: Vec<&Row> = here.collect();
        let methods = unique(here.iter().map(|row| row.key.method.to_string()));
        let named = unique(here.iter().map(|row| row.key.backing)).into_iter();
        let named = named.map(|backing| backing_without(&calls, &here, backing));
        let named: Vec<String> = named.collect();
        format!("{} on {}: {reason}", methods.join(", "), named.join(", "))
    };
    reasons.into_iter().map(line).collect()
}

/// `memfd`, or `hugetlb-2m of 4K, 64K` where other chunks have figures.
fn backing_without(calls: &[&Row], lacking: &[&Row], backing: Option<Backing>) -> String {
    let of_backing = |row: &&&Row| row.key.backing == backing;
    let chunks = unique(lacking.iter().filter(of_backing).map(|row| row.key.batch));
    let is_of_call = |row: &&&Row| {
        lacking
            .iter()
            .any(|other| other.key.method == row.key.method)
    };
    let all = calls.iter().filter(of_backing).filter(is_of_call);
    let all = unique(all.map(|row| row.key.batch));
    let name = figure::optional(backing);
    match chunks.len() == all.len() {
        true => name,
        false => {
            let chunks: Vec<String> = chunks.into_iter().map(chunk).collect();
            format!("{name} of {}", chunks.join(", "))
        }
    }
}
