//! The number of iterations of a `Loop` that a counter ends.
//!
//! Before iteration `k`, a counter is `start + k · step`. The condition after iteration `k` compares two such numbers, so
//! their difference is `d + k · s`. If it falls, the loop runs until it is no longer positive.

use rustc_hash::FxHashMap;

use super::Instance;
use super::build::Sizer;
use crate::operator::{OpType, Operator};
use crate::value::{Dim, ValueId};

/// The maximum number of nodes between a counter and the condition.
const MAX_DEPTH: usize = 8;

/// The end of a loop, as far as a counter tells it.
pub(super) enum End {
    /// The condition ends the loop, and nothing else does.
    Exact(Countdown),
    /// Another condition may end the loop before.
    AtMost(Countdown),
}

/// A number that falls by `step` in each iteration. The loop runs while it is positive.
pub(super) struct Countdown {
    start: Dim,
    step: i64,
}

impl Countdown {
    /// Returns the number of iterations of a loop whose first iteration is certain to run, or runs under this
    /// condition.
    pub(super) fn iterations(&self, first: First<'_>) -> Option<Dim> {
        let least = match first {
            First::Runs => 1,
            First::IfPositive(number) if *number == self.start => 0,
            First::IfPositive(_) => return None,
        };
        let rounded_up = self.start.checked_add(&Dim::Known(self.step - 1))?;
        rounded_up.checked_floordiv(&Dim::Known(self.step))?.checked_max(&Dim::Known(least))
    }
}

/// The condition of the first iteration.
#[derive(Clone, Copy)]
pub(super) enum First<'d> {
    Runs,
    /// It runs if the number is positive.
    IfPositive(&'d Dim),
}

/// `start + k · step` in iteration `k`.
struct Linear {
    start: Dim,
    step: i64,
}

impl Linear {
    fn constant(start: Dim) -> Linear {
        Linear { start, step: 0 }
    }

    fn plus(&self, other: &Linear) -> Option<Linear> {
        let start = self.start.checked_add(&other.start)?;
        Some(Linear { start, step: self.step.checked_add(other.step)? })
    }

    fn minus(&self, other: &Linear) -> Option<Linear> {
        let start = self.start.checked_sub(&other.start)?;
        Some(Linear { start, step: self.step.checked_sub(other.step)? })
    }
}

/// Returns the number that is positive exactly if a comparison of two integers holds.
pub(super) fn positive_if(op: OpType, a: &Dim, b: &Dim) -> Option<Dim> {
    let one = Dim::Known(1);
    match op {
        OpType::Less => b.checked_sub(a),
        OpType::Greater => a.checked_sub(b),
        OpType::LessOrEqual => b.checked_sub(a)?.checked_add(&one),
        OpType::GreaterOrEqual => a.checked_sub(b)?.checked_add(&one),
        _ => None,
    }
}

impl Sizer<'_, '_> {
    /// Returns what ends a loop with this body. `starts` are the values of the carried operands.
    pub(super) fn end(&self, body: usize, starts: &[Option<ValueId>]) -> Option<End> {
        let body = &self.instances[body];
        let makers = body.steps.iter().enumerate().flat_map(|(step, made)| {
            made.outputs.iter().flatten().map(move |&output| (output, step))
        });
        let counters = Counters { sizer: self, body, starts, makers: makers.collect() };
        let goes_on = *body.outputs.first()?;
        if let Some((OpType::And, [a, b])) = counters.made(goes_on) {
            let ends: Vec<Countdown> =
                [a, b].into_iter().filter_map(|id| counters.countdown(id)).collect();
            return ends.into_iter().next().map(End::AtMost);
        }
        counters.countdown(goes_on).map(End::Exact)
    }
}

/// The values of a body.
struct Counters<'s, 'q, 'a> {
    sizer: &'s Sizer<'q, 'a>,
    body: &'s Instance,
    starts: &'s [Option<ValueId>],
    /// The step that makes each value.
    makers: FxHashMap<ValueId, usize>,
}

impl Counters<'_, '_, '_> {
    /// Returns the operator and the two operands of the node that makes a value.
    fn made(&self, id: ValueId) -> Option<(OpType, [ValueId; 2])> {
        let step = &self.body.steps[*self.makers.get(&id)?];
        let node = &self.sizer.scan.nodes[step.node];
        let op = Operator::new(node.domain(), node.op).onnx()?;
        match step.inputs[..] {
            [Some(a)] => Some((op, [a, a])),
            [Some(a), Some(b)] => Some((op, [a, b])),
            _ => None,
        }
    }

    fn countdown(&self, condition: ValueId) -> Option<Countdown> {
        let (op, [a, b]) = self.made(condition)?;
        let number = match op {
            OpType::Identity => return self.countdown(a),
            OpType::Not => return self.until_equal(a),
            op => {
                let (a, b) = (self.linear(a, MAX_DEPTH)?, self.linear(b, MAX_DEPTH)?);
                let step = match op {
                    OpType::Less | OpType::LessOrEqual => b.step.checked_sub(a.step)?,
                    _ => a.step.checked_sub(b.step)?,
                };
                Linear { start: positive_if(op, &a.start, &b.start)?, step }
            }
        };
        falling(&number)
    }

    /// Returns the end of a loop that runs until two numbers are equal.
    fn until_equal(&self, equal: ValueId) -> Option<Countdown> {
        let (OpType::Equal, [a, b]) = self.made(equal)? else { return None };
        let difference = self.linear(a, MAX_DEPTH)?.minus(&self.linear(b, MAX_DEPTH)?)?;
        let number = match difference.step {
            ..0 => difference,
            _ => Linear::constant(Dim::Known(0)).minus(&difference)?,
        };
        // Numbers that step over each other are never equal.
        let meets = number.start.is_at_least(0) && number.start.is_divisible_by(number.step.abs());
        falling(&number).filter(|_| meets)
    }

    /// Returns the numbers that a scalar has in the iterations.
    fn linear(&self, id: ValueId, depth: usize) -> Option<Linear> {
        if let Some(place) = self.body.inputs.iter().position(|&input| input == id) {
            return self.carried(place);
        }
        if let Some([number]) = self.sizer.known(id).sizes.as_deref() {
            return Some(Linear::constant(number.clone()));
        }
        let depth = depth.checked_sub(1)?;
        let (op, [a, b]) = self.made(id)?;
        match op {
            OpType::Identity | OpType::Cast => self.linear(a, depth),
            OpType::Add => self.linear(a, depth)?.plus(&self.linear(b, depth)?),
            OpType::Sub => self.linear(a, depth)?.minus(&self.linear(b, depth)?),
            _ => None,
        }
    }

    /// Returns the numbers of an input of the body.
    fn carried(&self, place: usize) -> Option<Linear> {
        let Some(carry) = place.checked_sub(2) else {
            return (place == 0).then_some(Linear { start: Dim::Known(0), step: 1 });
        };
        let start = self.starts.get(carry).copied().flatten()?;
        let start = match self.sizer.known(start).sizes.as_deref() {
            Some([start]) => start.clone(),
            _ => return None,
        };
        let after = *self.body.outputs.get(1 + carry)?;
        Some(Linear { start, step: self.added(after, self.body.inputs[place], MAX_DEPTH)? })
    }

    /// Returns the number by which a value is larger than an input of the body.
    fn added(&self, id: ValueId, input: ValueId, depth: usize) -> Option<i64> {
        if id == input {
            return Some(0);
        }
        let depth = depth.checked_sub(1)?;
        let number = |id: ValueId| match self.sizer.known(id).sizes.as_deref() {
            Some([number]) => number.known(),
            _ => None,
        };
        let (op, [a, b]) = self.made(id)?;
        match op {
            OpType::Identity => self.added(a, input, depth),
            OpType::Add => match (number(a), number(b)) {
                (None, Some(number)) => self.added(a, input, depth)?.checked_add(number),
                (Some(number), None) => self.added(b, input, depth)?.checked_add(number),
                _ => None,
            },
            OpType::Sub => self.added(a, input, depth)?.checked_sub(number(b)?),
            _ => None,
        }
    }
}

/// Returns the countdown to a number after iteration `k` that must be positive for the next one.
fn falling(after: &Linear) -> Option<Countdown> {
    let step = after.step.checked_neg().filter(|&step| step > 0)?;
    Some(Countdown { start: after.start.checked_add(&Dim::Known(step))?, step })
}
