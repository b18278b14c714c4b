//! Curves over several bills.

use pagetoll_bill::{Bill, Row};
use pagetoll_compare::curves::{Axis, Curves, NamedBill};

use super::samples;
use crate::{Format, Width};

/// The sample on two kernels, on a version of Xen.
fn on_two_kernels(xen: &str) -> Bill {
    let mut bill = samples::sample();
    let linux = bill.stack.remove("linux").unwrap();
    bill.stack.insert("xen".into(), xen.into());
    let of = |kernel: &str| -> Vec<Row> {
        let mut rows = bill.rows.clone();
        for row in &mut rows {
            row.key.kernel = Some(kernel.into());
        }
        rows
    };
    let kernels = [
        "debian:trixie-backports/6.17",
        "debian:trixie-backports/6.18",
    ];
    bill.rows = kernels.into_iter().flat_map(of).collect();
    for kernel in kernels {
        bill.stack
            .insert(format!("linux ({kernel})"), linux.clone() + kernel);
    }
    bill
}

#[test]
fn a_label_has_the_kernel_of_its_curve_alone() {
    let bills = ["4.17.7", "4.20.1"].map(|xen| NamedBill {
        name: xen.to_owned(),
        bill: on_two_kernels(xen),
    });
    let curves = Curves::new(&bills, Some(Axis::Xen), 0.005).unwrap();
    let text = crate::curves(&curves, Format::Text, Width::Unlimited).unwrap();
    let labels = text.lines().filter(|line| line.contains("linux 6.1.192"));
    assert!(labels.clone().count() > 10, "{text}");
    for label in labels {
        let kernels = label.matches("debian:trixie-backports").count();
        // As it was ordered, and in its version.
        assert!(kernels == 2 && !label.contains("linux ("), "{label}");
    }
}
