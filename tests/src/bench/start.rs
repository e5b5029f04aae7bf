//! From nothing to the first result, and where the time goes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pyproc_native_shell::cli::Profile;
use pyproc_native_shell::client::ControlClient;
use pyproc_native_shell::marks::{Mark, Marks};
use pyproc_native_shell::page_host;
use pyproc_native_shell::serve::serve;
use pyproc_protocol::frame::Peer;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::report::{Budget, Measure, Moment, Report};
use super::samples::Samples;
use super::{Effort, bare};
use crate::{Home, PATIENCE, hello, members, run};

/// Bytes in flight between the client and a host in this process.
const PIPE: usize = 1 << 20;

/// The last moment of a time line.
const FIRST_RESULT: &str = "first result";

pub(super) async fn measure(effort: Effort, report: &mut Report) {
    // The first start makes the boot image, the first browser fills the
    // system's file cache.
    cold().await;
    prepare().await;
    bare::browser_start().await;
    let mut hellos = Samples::default();
    let mut results = Samples::default();
    let mut browsers = Samples::default();
    let mut compiled = Samples::default();
    let mut engines = Samples::default();
    let mut lines = Vec::new();
    // One after the other, so that all meet the same surroundings.
    for _ in 0..effort.starts {
        let (hello, result) = cold().await;
        hellos.push(hello);
        results.push(result);
        browsers.push(bare::browser_start().await);
        compiled.push(bare::compiled_engine().await);
        engines.push(bare::plain_engine().await);
        lines.push(time_line().await);
    }
    report.add(Measure::median("process start to hello", &hellos).budget(Budget::AtMost(30.0)));
    report.add(
        Measure::median("process start to first result", &results)
            .floor("bare start and compilation", compiled.median())
            .budget(Budget::AtMost(1500.0)),
    );
    report.add(
        Measure::median("process start to first result", &results)
            .floor("bare loadPyodide", engines.median())
            .budget(Budget::Ratio(0.25)),
    );
    report.add(Measure::median(
        "bare browser start to first request",
        &browsers,
    ));
    report.add(Measure::median(
        "bare browser start to the engine compiled",
        &compiled,
    ));
    report.add(Measure::median(
        "bare loadPyodide to first result",
        &engines,
    ));
    report.time_line(moments(&lines));
}

/// One start of the product: its hello and its first result.
async fn cold() -> (Duration, Duration) {
    let home = Home::default();
    let spawned = Instant::now();
    let mut product = home.serve();
    product.send(&hello()).await;
    assert_eq!(product.frame().await["type"], "hello");
    let hello = spawned.elapsed();
    product.send(&run("r:1", "1+1")).await;
    let terminal = product.terminal("r:1").await;
    let result = spawned.elapsed();
    assert_eq!(terminal["output"]["value"], "2", "{terminal}");
    product.end_input();
    product.exited().await;
    (hello, result)
}

/// Makes the boot image that starts in this process use.
async fn prepare() {
    let home = Home::default();
    let profile = Profile::load(Some(&home.config())).expect("a profile");
    let (_, plan) = profile.plan().expect("a plan");
    page_host::prepare_image(&plan)
        .await
        .expect("the boot image");
}

/// One start in this process, with its marks.
async fn time_line() -> Vec<(&'static str, Duration)> {
    let home = Home::default();
    let profile = Profile::load(Some(&home.config())).expect("a profile");
    let (host, mut page) = profile.plan().expect("a plan");
    page.marks = Marks::recording();
    let marks = page.marks.clone();
    let (near, far) = tokio::io::duplex(PIPE);
    let (stop, stopped) = oneshot::channel();
    let begun = Instant::now();
    let (reader, writer) = tokio::io::split(far);
    let serving = tokio::spawn(serve(host, page, reader, writer, stopped));
    let (reader, writer) = tokio::io::split(near);
    let peer = Peer::new("bench", "1").expect("a peer");
    let client = ControlClient::connect(reader, writer, peer).await;
    let client = client.expect("a hello");
    let first = client.request("machine.run", members(json!({"code": "1+1"})));
    let first = timeout(PATIENCE, first).await.expect("an answer");
    assert_eq!(first.expect("a result").output["value"], "2");
    let mut noted = marks.noted();
    noted.push((FIRST_RESULT, Instant::now()));
    stop.send("measured".to_owned()).expect("it serves");
    serving.await.expect("it ends").expect("it served");
    let since = |(name, at): Mark| (name, at - begun);
    noted.into_iter().map(since).collect()
}

/// The median of every moment, in order.
fn moments(lines: &[Vec<(&'static str, Duration)>]) -> Vec<Moment> {
    let mut times: BTreeMap<&str, Samples> = BTreeMap::new();
    for (name, at) in lines.iter().flatten() {
        times.entry(name).or_default().push(*at);
    }
    let median = |(name, samples): (&'static str, Samples)| Moment {
        name,
        at: samples.median(),
    };
    let mut moments: Vec<_> = times.into_iter().map(median).collect();
    moments.sort_by(|a, b| a.at.total_cmp(&b.at));
    moments
}
