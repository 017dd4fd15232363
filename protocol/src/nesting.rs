//! Tracks open JSON containers without recursion.
//!
//! Each level takes one bit: a hundred thousand levels need twelve kilobytes, long after a recursive parser would have
//! overflowed its stack.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Container {
    Object,
    Array,
}

/// The open containers, outermost first.
#[derive(Debug, Default)]
pub(crate) struct Nesting {
    /// The number of open containers.
    pub(crate) depth: usize,
    /// One bit per open container; set for an array.
    bits: Vec<u64>,
}

impl Nesting {
    pub(crate) fn push(&mut self, container: Container) {
        let (word, bit) = (self.depth / 64, self.depth % 64);
        if word == self.bits.len() {
            self.bits.push(0);
        }
        if let Some(word) = self.bits.get_mut(word) {
            match container {
                Container::Array => *word |= 1 << bit,
                Container::Object => *word &= !(1 << bit),
            }
        }
        self.depth = self.depth.saturating_add(1);
    }

    pub(crate) fn pop(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    pub(crate) fn innermost(&self) -> Option<Container> {
        let last = self.depth.checked_sub(1)?;
        let word = self.bits.get(last / 64)?;
        Some(if word >> (last % 64) & 1 == 1 { Container::Array } else { Container::Object })
    }

    /// The depth of the innermost array, counted from 1.
    pub(crate) fn innermost_array(&self) -> Option<usize> {
        let last = self.depth.checked_sub(1)?;
        let below = u64::MAX >> (63 - last % 64);
        let words = self.bits.iter().enumerate().take(last / 64 + 1).rev();
        for (index, word) in words {
            let word = if index == last / 64 { word & below } else { *word };
            if word != 0 {
                return Some(index * 64 + (63 - word.leading_zeros() as usize) + 1);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn nesting_behaves_like_a_list_of_containers(steps in proptest::collection::vec(0..5_u8, 0..500)) {
            let (mut nesting, mut list) = (Nesting::default(), Vec::new());
            for step in steps {
                let container = if step == 0 { Container::Array } else { Container::Object };
                if step == 4 {
                    nesting.pop();
                    list.pop();
                } else {
                    nesting.push(container);
                    list.push(container);
                }
                prop_assert_eq!(nesting.depth, list.len());
                prop_assert_eq!(nesting.innermost(), list.last().copied());
                let array = list.iter().rposition(|container| *container == Container::Array);
                prop_assert_eq!(nesting.innermost_array(), array.map(|index| index + 1));
            }
        }
    }
}
