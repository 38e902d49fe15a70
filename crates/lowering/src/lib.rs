pub mod error;
pub use error::{LoweringError, Refused};
