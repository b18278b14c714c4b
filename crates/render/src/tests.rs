//! Golden texts of sample bills and comparisons, and what holds for every form of every sample.

mod diff;
mod forms;
mod samples;
mod tables;

/// Compares with a file of `tests/data`; `UPDATE_EXPECT=1` writes it.
fn golden(name: &str, text: &str) {
    expect_test::expect_file![format!("../tests/data/{name}")].assert_eq(text);
}
