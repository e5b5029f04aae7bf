//! Bytes, lines and frames of the control protocol as the product reads and
//! writes them (control protocol 3).

mod frames;
mod lines;
mod requests;
mod streams;
