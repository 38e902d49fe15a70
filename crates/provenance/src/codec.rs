//! The table as one versioned text, for the `indexed` level.
