//! What clients see of a product: operations, refusals, machine answers, and
//! how much one of them can ask for (control protocol 3, 5, 7).

mod flood;
mod garbage;
mod machine;
mod operations;
