//! The HTTP surface (control protocol 6.1).

use pyproc_tests::Home;
use pyproc_tests::http::{Answer, fetch, raw};

use crate::{authority, booted, still_serves};

/// Headers of every answer.
fn has_the_common_headers(answer: &Answer, what: &str) {
    let expected = [
        ("cache-control", "no-store"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-embedder-policy", "require-corp"),
        ("x-content-type-options", "nosniff"),
    ];
    for (name, value) in expected {
        assert_eq!(answer.header(name), Some(value), "{what} {name}");
    }
}

#[tokio::test]
async fn the_page_opens_once_and_only_with_its_nonce() {
    // The browser of this home never asks for the page.
    let home = Home::pageless();
    let product = home.open().await;
    let authority = authority(&product).await;
    for query in [
        "",
        "?controlBootstrap=wrong",
        "?controlBootstrap=",
        "?other=1",
    ] {
        let answer = fetch(&authority, "GET", &format!("/machine{query}")).await;
        assert_eq!(answer.status, 403, "{query}");
        has_the_common_headers(&answer, query);
    }
    let launch = launch_path(&home).await;
    let answer = fetch(&authority, "GET", &launch).await;
    assert_eq!(answer.status, 200, "a wrong nonce does not use it up");
    assert_eq!(
        answer.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    has_the_common_headers(&answer, "page");
    let nonce = launch.split_once('=').expect("a nonce").1;
    let body = String::from_utf8(answer.body).expect("text");
    assert!(!body.contains(nonce), "the nonce is not in the page");
    for path in [
        launch.as_str(),
        "/machine?controlBootstrap=wrong",
        "/machine",
    ] {
        let answer = fetch(&authority, "GET", path).await;
        assert_eq!(answer.status, 410, "{path}");
        has_the_common_headers(&answer, path);
    }
}

/// Path and query that the product gave to its browser.
async fn launch_path(home: &Home) -> String {
    let arguments = home.path().join("arguments");
    let text = tokio::time::timeout(pyproc_tests::PATIENCE, async {
        loop {
            let text = std::fs::read_to_string(&arguments).unwrap_or_default();
            if text.ends_with('\n') {
                return text;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    });
    let text = text.await.expect("the browser was started");
    let url = text.lines().find(|line| line.contains("controlBootstrap="));
    let url = url.expect("a launch address");
    url[url.find("/machine").expect("a path")..].to_owned()
}

#[tokio::test]
async fn a_page_that_was_opened_answers_410() {
    let home = Home::default();
    let (mut product, authority) = booted(&home).await;
    for path in ["/machine", "/machine?controlBootstrap=wrong"] {
        assert_eq!(fetch(&authority, "GET", path).await.status, 410, "{path}");
        assert_eq!(fetch(&authority, "HEAD", path).await.status, 410, "{path}");
    }
    still_serves(&mut product, "r:1").await;
}

#[tokio::test]
async fn only_the_own_host_is_answered() {
    let home = Home::default();
    let (_product, authority) = booted(&home).await;
    let port = authority.split_once(':').expect("a port").1;
    let foreign = [
        format!("Host: localhost:{port}"),
        "Host: 127.0.0.1".to_owned(),
        "Host: evil.test".to_owned(),
        format!("Host: evil.test:{port}"),
        format!("Host: {authority}\r\nHost: evil.test"),
        format!("Host: {authority}."),
    ];
    for path in [
        "/machine",
        "/page/engine/pyodide.mjs",
        "/page/worker/worker.js",
        "/bridge",
        "/",
    ] {
        for host in &foreign {
            let answer = raw(&authority, &format!("GET {path} HTTP/1.1\r\n{host}")).await;
            assert_eq!(answer.status, 403, "{path} {host}");
            has_the_common_headers(&answer, host);
        }
    }
    let answer = raw(&authority, "GET /machine HTTP/1.0").await;
    assert_eq!(answer.status, 403, "no host");
}

#[tokio::test]
async fn only_reads_are_answered() {
    let home = Home::default();
    let (_product, authority) = booted(&home).await;
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW"] {
        for path in [
            "/machine",
            "/page/engine/pyodide.mjs",
            "/bridge",
            "/nothing",
        ] {
            let answer = fetch(&authority, method, path).await;
            assert_eq!(answer.status, 405, "{method} {path}");
            has_the_common_headers(&answer, method);
        }
    }
}

#[tokio::test]
async fn engine_files_are_shared_with_the_worker_and_nothing_else_is() {
    let home = Home::default();
    let (_product, authority) = booted(&home).await;
    let shared = [
        ("/page/engine/pyodide.asm.wasm", "application/wasm"),
        ("/page/engine/pyodide.asm.mjs", "text/javascript"),
        ("/page/engine/python_stdlib.zip", "application/zip"),
        ("/page/worker/worker.js", "text/javascript"),
    ];
    for (path, media_type) in shared {
        let answer = fetch(&authority, "GET", path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.header("content-type"), Some(media_type), "{path}");
        assert_eq!(
            answer.header("access-control-allow-origin"),
            Some("*"),
            "{path}"
        );
        assert_eq!(
            answer.header("cross-origin-resource-policy"),
            Some("cross-origin"),
            "{path}"
        );
        let length = answer
            .header("content-length")
            .and_then(|text| text.parse().ok());
        assert_eq!(length, Some(answer.body.len()), "{path}");
        has_the_common_headers(&answer, path);
    }
    let private = [
        "/page/machine/main.js",
        "/machine",
        "/bridge",
        "/image",
        "/nothing",
    ];
    for path in private {
        let answer = fetch(&authority, "GET", path).await;
        assert_eq!(answer.header("access-control-allow-origin"), None, "{path}");
        assert_eq!(
            answer.header("cross-origin-resource-policy"),
            Some("same-origin"),
            "{path}"
        );
        has_the_common_headers(&answer, path);
    }
    let worker = fetch(&authority, "GET", "/page/worker/worker.js").await;
    let policy = worker.header("content-security-policy").expect("a policy");
    assert!(
        policy.starts_with("sandbox allow-scripts; default-src 'none'"),
        "{policy}"
    );
    assert!(policy.contains("connect-src 'none'"), "{policy}");
}

#[tokio::test]
async fn engine_paths_do_not_leave_the_engine() {
    // An engine of its own, so that something outside of it exists.
    let home = Home::default();
    let root = home.path().join("engine");
    std::fs::create_dir(&root).expect("a directory");
    for entry in std::fs::read_dir(pyproc_tests::engine()).expect("the engine") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), root.join(entry.file_name())).expect("a copy");
    }
    std::fs::write(home.path().join("outside.txt"), "secret").expect("a file");
    std::os::unix::fs::symlink(home.config(), root.join("link.json")).expect("a link");
    let manifest = serde_json::json!({"schemaVersion": 1, "engine": {"root": root}});
    std::fs::write(home.config(), manifest.to_string()).expect("a manifest");
    let (_product, authority) = booted(&home).await;
    let escapes = [
        "/page/engine/../outside.txt",
        "/page/engine/..%2foutside.txt",
        "/page/engine/%2e%2e/outside.txt",
        "/page/engine/./../outside.txt",
        "/page/engine//etc/passwd",
        "/page/engine/link.json",
        "/page/engine/..\\outside.txt",
    ];
    for path in escapes {
        let answer = fetch(&authority, "GET", path).await;
        assert!(
            matches!(answer.status, 403 | 404),
            "{path}: {}",
            answer.status
        );
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(
            !body.contains("secret") && !body.contains("schemaVersion") && !body.contains("root:"),
            "{path}: {body}"
        );
        has_the_common_headers(&answer, path);
    }
    for (path, status) in [
        ("/page/engine/../outside.txt", 403),
        ("/page/engine/link.json", 403),
        ("/page/engine/none.js", 404),
        ("/page/engine/", 404),
        ("/nothing", 404),
        ("/", 404),
        ("/page/worker/none.js", 404),
        ("/wheels/../machine.json", 404),
    ] {
        assert_eq!(
            fetch(&authority, "GET", path).await.status,
            status,
            "{path}"
        );
    }
}

#[tokio::test]
async fn standard_error_names_browser_and_page_and_no_secret() {
    let home = Home::default();
    let (mut product, authority) = booted(&home).await;
    still_serves(&mut product, "r:1").await;
    product.end_input();
    let (_, said) = product.exited().await;
    let browser = pyproc_tests::browser();
    assert!(said.contains(&browser.display().to_string()), "{said}");
    assert!(
        said.contains(&format!("http://{authority}/machine\n")),
        "{said}"
    );
    assert!(!said.contains("controlBootstrap"), "{said}");
    // Secrets are 43 characters of base64url.
    let is_secret = |word: &str| {
        word.len() >= 43
            && word
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    let words = said.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'));
    assert_eq!(
        words.filter(|word| is_secret(word)).collect::<Vec<_>>(),
        Vec::<&str>::new()
    );
}
