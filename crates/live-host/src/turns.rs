//! The order in which lines of a bill take turns.

/// The lines of a round: forwards in even rounds, backwards in odd ones (A B B A). A steady drift of the machine then meets all
/// lines alike, and what one leaves behind does not always meet the same other.
pub fn turns<T>(round: u32, lines: &mut [T]) -> Box<dyn Iterator<Item = &mut T> + '_> {
    match round.is_multiple_of(2) {
        true => Box::new(lines.iter_mut()),
        false => Box::new(lines.iter_mut().rev()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_two_rounds_each_line_is_in_the_same_place_in_the_mean() {
        let mut places = [0, 0, 0];
        for round in 0..4 {
            for (place, line) in turns(round, &mut places).enumerate() {
                *line += place;
            }
        }
        assert_eq!(places, [4, 4, 4]);
    }
}
