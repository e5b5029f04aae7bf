//! A product with a client connected to it.

use std::process::ExitStatus;

use pyproc_native_shell::client::{ControlClient, Ending};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{PATIENCE, Product};

/// A product with a client connected to it.
pub struct Machine {
    /// The client.
    pub client: ControlClient,
    /// The product; its streams belong to the client.
    pub product: Product,
}

impl Machine {
    /// Runs code.
    pub async fn run(&self, code: &str) -> Ending {
        self.request("machine.run", json!({"code": code})).await
    }

    /// Runs code that must succeed; the result is `repr` of its value.
    pub async fn value(&self, code: &str) -> String {
        let output = self.output("machine.run", json!({"code": code})).await;
        output["value"]
            .as_str()
            .unwrap_or_else(|| panic!("no value: {output}"))
            .to_owned()
    }

    /// Performs an operation.
    pub async fn request(&self, operation: &str, input: Value) -> Ending {
        let Value::Object(input) = input else {
            panic!("input is an object")
        };
        let ending = timeout(PATIENCE, self.client.request(operation, input)).await;
        ending.expect("the product answers")
    }

    /// Performs an operation that must succeed.
    pub async fn output(&self, operation: &str, input: Value) -> Value {
        match self.request(operation, input).await {
            Ok(completed) => completed.output,
            Err(error) => panic!("{operation}: {error} {:?}", error.details()),
        }
    }

    /// Saves a checkpoint; the result is the operation's output.
    pub async fn save(&self) -> Value {
        self.output("machine.checkpoint.save", json!({})).await
    }

    /// Restores a checkpoint; the result is the operation's output.
    pub async fn restore(&self, index: Value) -> Value {
        self.output("machine.checkpoint.restore", json!({"index": index}))
            .await
    }

    /// Ends the client's stream and waits for the product to end.
    pub async fn close(self) -> (ExitStatus, String) {
        drop(self.client);
        self.product.exited().await
    }
}
