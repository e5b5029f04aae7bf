//! The main job: Python goes in, its value comes out, state persists.

use std::path::Path;
use std::process::Command;

use pyproc_tests::{Home, binary};
use serde_json::json;

#[tokio::test]
async fn state_persists_and_checkpoints_rewind_it() {
    let home = Home::default();
    let machine = home.connect().await;
    assert_eq!(machine.value("40 + 2").await, "42");
    machine.run("x = 1").await.unwrap();
    assert_eq!(machine.save().await["index"], 1);
    machine.run("x = 2").await.unwrap();
    assert_eq!(machine.value("x").await, "2");
    assert_eq!(machine.restore(json!(1)).await["index"], 1);
    assert_eq!(machine.value("x").await, "1");
    let (status, stderr) = machine.close().await;
    assert!(status.success(), "{stderr}");
    home.is_left_clean().await;
}

#[tokio::test]
async fn the_client_of_the_book_works() {
    let home = Home::default();
    let programs = binary("pyproc-control").parent().unwrap().to_owned();
    let others = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(programs).chain(std::env::split_paths(&others));
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/examples/client.py");
    let program = format!(
        "import sys\nsys.path.insert(0, {folder:?})\nfrom client import Machine\n\
         with Machine('--config', {config:?}) as machine:\n\
         \x20   print(*machine.operations)\n\
         \x20   machine.request('machine.run', code='items = [1, 2, 3]')\n\
         \x20   machine.request('machine.checkpoint.save')\n\
         \x20   failed = machine.request('machine.run', code='items.clear()\\n1 / len(items)')\n\
         \x20   print(failed['error']['code'], failed['error']['outcome'])\n\
         \x20   machine.request('machine.checkpoint.restore')\n\
         \x20   print(machine.request('machine.run', code='sum(items)')['output']['value'])\n",
        folder = client.parent().unwrap(),
        config = home.config(),
    );
    let output = Command::new("python3")
        .args(["-B", "-c", &program])
        .env("PATH", std::env::join_paths(path).unwrap())
        .env("TMPDIR", home.temporary())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "machine.run machine.checkpoint.save machine.checkpoint.restore machine.reset\n\
         MACHINE_PYTHON_ERROR applied\n6\n"
    );
    home.is_left_clean().await;
}
