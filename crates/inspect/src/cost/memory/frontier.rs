//! The largest of several sums of sizes, which may depend on the values of symbols.

use onnx::Total;

use super::Values;

/// The maximum number of sums of which none is always the largest.
const MAX_SUMS: usize = 24;

/// The sums of which each may be the largest for some sizes.
#[derive(Clone, Debug)]
pub(super) struct Frontier<T> {
    pub sums: Vec<(Total, T)>,
    /// False if too many sums may be the largest.
    pub is_complete: bool,
}

impl<T> Default for Frontier<T> {
    fn default() -> Frontier<T> {
        Frontier { sums: Vec::new(), is_complete: true }
    }
}

impl<T> Frontier<T> {
    /// Adds a sum with a note about it.
    pub(super) fn add(&mut self, sum: Total, note: T) {
        if self.sums.iter().any(|(known, _)| known.is_never_less_than(&sum)) {
            return;
        }
        self.sums.retain(|(known, _)| !sum.is_never_less_than(known));
        self.sums.push((sum, note));
        if self.sums.len() > MAX_SUMS {
            self.is_complete = false;
            let by_size = |(_, (a, _)): &(usize, &(Total, T)),
                           (_, (b, _)): &(usize, &(Total, T))| {
                a.at_large_sizes().total_cmp(&b.at_large_sizes())
            };
            if let Some((least, _)) = self.sums.iter().enumerate().min_by(by_size) {
                self.sums.swap_remove(least);
            }
        }
    }

    /// Returns the sum that is the largest for these values of symbols.
    pub(super) fn most(&self, values: &Values) -> Option<&(Total, T)> {
        let larger = |(a, _): &&(Total, T), (b, _): &&(Total, T)| {
            values.measure(a).total_cmp(&values.measure(b))
        };
        self.sums.iter().max_by(larger)
    }

    /// Returns the largest sum as a formula.
    pub(super) fn formula(&self) -> Option<String> {
        if !self.is_complete {
            return None;
        }
        let mut sums: Vec<(f64, String)> = Vec::new();
        for (sum, _) in &self.sums {
            sums.push((sum.at_large_sizes(), sum.formula()?));
        }
        sums.sort_by(|(a, x), (b, y)| b.total_cmp(a).then_with(|| x.cmp(y)));
        let formulas: Vec<String> = sums.into_iter().map(|(_, formula)| formula).collect();
        match &formulas[..] {
            [] => Some("0".to_owned()),
            [formula] => Some(formula.clone()),
            several => Some(format!("max({})", several.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frontier(texts: &[&str]) -> Frontier<()> {
        let mut frontier = Frontier::default();
        for text in texts {
            frontier.add(Total::of(&text.parse().unwrap()).unwrap(), ());
        }
        frontier
    }

    #[test]
    fn a_sum_that_another_one_always_exceeds_is_not_in_the_formula() {
        let formula = |texts: &[&str]| frontier(texts).formula().unwrap();
        assert_eq!(formula(&[]), "0");
        assert_eq!(formula(&["4*B", "8*B", "6*B"]), "8*B");
        assert_eq!(formula(&["4*B*T", "100*B", "4*B*T + 8"]), "max(4*B*T + 8, 100*B)");
        assert_eq!(formula(&["7", "12", "3"]), "12");
    }

    #[test]
    fn too_many_sums_have_no_formula() {
        let texts: Vec<String> =
            (0..30).map(|at| format!("{}*A + {}*B", at + 1, 30 - at)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        assert_eq!(frontier(&texts).formula(), None);
        assert!(frontier(&texts).most(&Values::default()).is_some());
    }
}
