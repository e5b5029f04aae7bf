//! The loopback server of a running product, met by strangers, and what
//! becomes of requests when its page is lost (control protocol 6).

mod loss;
mod page;
mod server;
mod strangers;

use pyproc_tests::{Home, Product, run};

/// A product whose machine answers, and the address of its loopback server.
async fn booted(home: &Home) -> (Product, String) {
    let mut product = home.open().await;
    product.send(&run("boot:1", "'booted'")).await;
    assert_eq!(product.frame().await["output"]["value"], "'booted'");
    let authority = authority(&product).await;
    (product, authority)
}

/// `address:port` of the loopback server, from the line for people.
async fn authority(product: &Product) -> String {
    let said = product.says("/machine\n").await;
    let (_, address) = said.split_once("page http://").expect("the page's address");
    let (authority, _) = address.split_once('/').expect("a path");
    authority.to_owned()
}

/// Asserts that the machine is untouched.
async fn still_serves(product: &mut Product, id: &str) {
    product.send(&run(id, "6 * 7")).await;
    let answer = product.frame().await;
    assert_eq!(answer["output"]["value"], "42", "{answer}");
}
