//! Whole packets through the public interface: they read back, keep their size, and invalid bytes
//! cannot break a reader.

mod made;
mod malformed;
mod returned;
mod sized;
