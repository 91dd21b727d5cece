//! Recordings, whatever becomes of their files: one program, which is linked once.

mod full_disk;
mod hostile_segments;
mod output;
mod recording;
