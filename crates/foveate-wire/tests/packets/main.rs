//! Whole packets through the public interface: they return, they keep their size, and nothing that
//! comes from elsewhere can break a reader.

mod made;
mod malformed;
mod returned;
mod sized;
