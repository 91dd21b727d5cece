//! What if.
#![allow(dead_code)]
mod network;
