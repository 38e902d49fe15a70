//! Describes graphs for those who rewrite them: patterns, maps of axes, sizes, and constants and their evaluation.
//!
//! This crate contains no rewrite. [`rewrite`] applies a pattern and its replacement, and `passes` lists the rewrites.

pub mod axis_map;
pub mod axis_order;
pub mod eval;
pub mod pattern;
pub mod rewrite;
pub mod sizes;
pub mod stored;
