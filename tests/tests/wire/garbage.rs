//! Input that is no protocol ends the product, always in the same way.

use std::time::Duration;

use pyproc_tests::random::Random;
use pyproc_tests::{Home, Product, cancel, hello, line, request};
use serde_json::{Value, json};

/// Longest time from the input to the end of the process.
const END: Duration = Duration::from_secs(10);

/// Random bytes; sizes from one byte to more than the limit of a line.
fn noise(random: &mut Random) -> Vec<u8> {
    let bits = 1 + random.below(21);
    let length = 1 + random.below(1 << bits);
    (0..length).map(|_| random.bits() as u8).collect()
}

/// Frames out to the end of output, and how the product ended.
async fn outcome(mut product: Product, bytes: &[u8]) -> (Vec<Value>, Option<i32>) {
    // It may end before it has read everything; who writes then is told so.
    let _ = product.try_write(bytes).await;
    product.end_input();
    let frames = product.rest().await;
    let (status, stderr) = product.exited_within(END).await;
    assert!(status.code().is_some(), "{status:?} {stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
    (frames, status.code())
}

fn fatal_frames(frames: &[Value]) -> usize {
    frames.iter().filter(|frame| frame["fatal"] == true).count()
}

#[tokio::test]
async fn random_bytes_end_in_one_fatal_frame() {
    let home = Home::default();
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let (bytes, greeted) = (noise(&mut random), seed % 2 == 0);
        let product = match greeted {
            true => home.open().await,
            false => home.serve(),
        };
        let (frames, code) = outcome(product, &bytes).await;
        assert_eq!(code, Some(1), "{random:?}");
        assert_eq!(
            (frames.len(), fatal_frames(&frames)),
            (1, 1),
            "{random:?} {frames:?}"
        );
    }
    home.is_left_clean().await;
}

#[tokio::test]
async fn damaged_frames_end_in_an_answer_or_one_fatal_frame() {
    let home = Home::default();
    let whole = [
        line(&hello()),
        line(&request(
            "r:1",
            "nope.op",
            json!({"text": "h\u{e9}\u{1f600}", "n": [1, 2.5, null]}),
        )),
        line(&cancel("r:1", "reason")),
        line(&request("r:2", "nope.op", json!({}))),
    ]
    .concat();
    let mut ends = [0, 0];
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let mut bytes = whole.clone();
        for _ in 0..random.below(3) {
            let at = random.below(bytes.len());
            match random.below(4) {
                0 => bytes[at] = random.bits() as u8,
                1 => bytes.insert(at, random.bits() as u8),
                2 => bytes.truncate(at.max(1)),
                _ => drop(bytes.remove(at)),
            }
        }
        let (frames, code) = outcome(home.serve(), &bytes).await;
        let fatal = fatal_frames(&frames);
        let code = code.expect("an exit code");
        assert_eq!(
            usize::try_from(code).ok(),
            Some(fatal),
            "{random:?} {frames:?}"
        );
        if fatal == 1 {
            assert_eq!(
                frames.last().map(|last| &last["fatal"]),
                Some(&json!(true)),
                "{random:?}"
            );
        }
        ends[fatal] += 1;
    }
    assert!(
        ends.iter().all(|count| *count > 5),
        "both ends are seen: {ends:?}"
    );
    home.is_left_clean().await;
}
