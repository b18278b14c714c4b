//! Magnitudes that figures of files may have. Sums, products and ratios of such figures are finite: what is computed from a
//! bill that was read is a number, and so is what is drawn of it.

use std::fmt;

use serde_json::Value;

/// The least and the largest magnitude of a figure that is not 0.
#[derive(Clone, Copy, Debug)]
pub struct Magnitude {
    least: f64,
    largest: f64,
}

impl Magnitude {
    /// Figures of a bill. No rate of two 64-bit counts, in billionths, is larger; no difference of such figures that is not 0 is
    /// as small.
    pub(crate) const OF_BILLS: Self = Self {
        least: 1e-100,
        largest: 1e30,
    };

    /// Costs of an operation and published figures. 10^12 nanoseconds are a quarter of an hour.
    pub const OF_COSTS: Self = Self {
        least: 1e-12,
        largest: 1e12,
    };

    /// True for 0 and for figures of such a magnitude.
    #[must_use]
    pub fn has(self, figure: f64) -> bool {
        figure == 0.0 || (self.least..=self.largest).contains(&figure.abs())
    }

    /// The first figure of a value that has another magnitude, by its field: `rows[0].tolls[1].cost_each`. Counts are whole
    /// numbers of 64 bits, and not looked at.
    pub(crate) fn refuses(self, value: &Value) -> Option<(String, f64)> {
        let below = |part: &str, value| {
            let (field, figure) = self.refuses(value)?;
            Some((format!("{part}{field}"), figure))
        };
        match value {
            Value::Number(number) if number.is_f64() => {
                let figure = number.as_f64().filter(|figure| !self.has(*figure));
                figure.map(|figure| (String::new(), figure))
            }
            Value::Array(items) => {
                let mut items = items.iter().enumerate();
                items.find_map(|(index, item)| below(&format!("[{index}]"), item))
            }
            Value::Object(fields) => {
                let mut fields = fields.iter();
                fields.find_map(|(name, field)| below(&format!(".{name}"), field))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Magnitude {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:e} to {:e}", self.least, self.largest)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_figure_is_named_by_its_field() {
        let refused = |value| Magnitude::OF_BILLS.refuses(&value);
        let rows =
            json!({"pages": u64::MAX, "rows": [{"cost": 1.0}, {"tolls": {"a": [0.0, 1.5e31]}}]});
        assert_eq!(refused(rows), Some((".rows[1].tolls.a[1]".into(), 1.5e31)));
        assert_eq!(refused(json!([-1e30, -0.0, 1e-100, "1e99", null])), None);
        assert!(refused(json!([-1e31])).is_some() && refused(json!(1e-101)).is_some());
    }
}
