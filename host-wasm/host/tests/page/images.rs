//! Durable images as the machine makes and takes them (machine 18).

use pyproc_host::page::{
    ImageAnswer, ImageRefusal, PageInput, PageOutput, PageSettings, PlacedImage,
};
use serde_json::{Value, json};

use crate::rig::{CAPABILITY, Rig, restored, settings, verdict};

impl Rig {
    /// The image that the page is to make: table, record and limit.
    fn making(&mut self) -> (Vec<u32>, String, u64) {
        match self.work() {
            PageOutput::MakeImage {
                table,
                record,
                limit,
            } => (table, record, limit),
            other => panic!("{other:?}"),
        }
    }

    fn image(&mut self, answer: ImageAnswer) {
        self.tell(PageInput::Image(answer));
    }

    /// The image that the page is to place; it has this table.
    fn places(&mut self, address: &str, table: &[u32]) -> Vec<u32> {
        let free = match self.work() {
            PageOutput::PlaceImage { address: at, free } => {
                assert_eq!(at, address);
                free
            }
            other => panic!("{other:?}"),
        };
        self.image(ImageAnswer::Placed(PlacedImage {
            table: table.to_vec(),
            record: "{\"from\":\"image\"}".to_owned(),
            identities: vec![5],
        }));
        free
    }

    fn import(&mut self) {
        let input = json!({"address": "/durable/1"});
        self.command("machine.image.import", input);
    }
}

fn refusal(code: &str) -> ImageAnswer {
    ImageAnswer::Refused(ImageRefusal {
        code: code.to_owned(),
        message: "no".to_owned(),
    })
}

#[test]
fn an_export_saves_what_ran_and_is_sent_after_its_answer() {
    let mut rig = Rig::booted();
    rig.run("x = 1");
    rig.command("machine.image.export", json!({"limit": 1000}));
    let save = rig.saves(&[1, 7]);
    assert!(matches!(rig.work(), PageOutput::KeepContents(_)));
    let record = format!("{{\"seq\":{}}}", save.command["seq"]);
    assert_eq!(rig.making(), (vec![1, 7], record, 1000));
    rig.quiet();
    rig.image(ImageAnswer::Made(900));
    assert_eq!(
        rig.answer().unwrap(),
        json!({"byteLength": 900, "heapBytes": 8192, "pageBytes": 4096, "durationMs": 0})
    );
    assert_eq!(rig.work(), PageOutput::SendImage);
    rig.quiet();
}

#[test]
fn a_state_that_is_saved_is_exported_without_another_save() {
    let mut rig = Rig::booted();
    rig.run("x = 1");
    rig.save(&[1, 7]);
    for _ in 0..2 {
        rig.command("machine.image.export", json!({"limit": 1000}));
        assert_eq!(rig.making().0, [1, 7]);
        rig.image(ImageAnswer::Made(1));
        rig.answer().unwrap();
        assert_eq!(rig.work(), PageOutput::SendImage);
    }
    // The export is not in the list.
    rig.run("y = 1");
    assert_eq!(rig.save(&[1, 8])["index"], 2);
}

#[test]
fn an_export_that_is_refused_sends_nothing() {
    let mut rig = Rig::booted();
    rig.run("x = 1");
    rig.save(&[1, 7]);
    for (answer, expected) in [
        (
            refusal("MACHINE_IMAGE_UNSUPPORTED"),
            "MACHINE_IMAGE_UNSUPPORTED rejected false",
        ),
        (refusal("ELSE"), "PYPROC_INTERNAL rejected false"),
        (ImageAnswer::Made(1001), "PYPROC_INTERNAL rejected false"),
    ] {
        rig.command("machine.image.export", json!({"limit": 1000}));
        rig.making();
        rig.image(answer);
        assert_eq!(verdict(&rig.answer().unwrap_err()), expected);
        rig.quiet();
    }
    rig.command("machine.image.export", json!({}));
    let error = rig.answer().unwrap_err();
    assert_eq!(
        verdict(&error),
        "CONTROL_OPERATION_UNAVAILABLE notSent false"
    );
}

#[test]
fn a_state_that_is_not_portable_is_not_exported() {
    let mut rig = Rig::booted();
    rig.run("import native");
    rig.command("machine.image.export", json!({"limit": 1000}));
    let save = rig.posted("save");
    let members = json!({
        "changedPages": 1, "fresh": false, "heapBytes": 8192, "portable": false, "identities": [],
    });
    rig.reply_with(&save, members, "", Some(vec![1, 7]), Some("{}"));
    let error = rig.answer().unwrap_err();
    assert_eq!(verdict(&error), "MACHINE_IMAGE_UNSUPPORTED rejected false");
}

#[test]
fn an_imported_state_is_the_latest_checkpoint_in_a_fresh_worker() {
    let mut rig = Rig::booted();
    rig.run("x = 1");
    rig.save(&[1, 7]);
    rig.import();
    rig.places("/durable/1", &[1, 20, 21]);
    rig.boots(2);
    let adopt = rig.adopts(2);
    assert_eq!(adopt.table, Some(vec![1, 20, 21]));
    assert_eq!(adopt.record.as_deref(), Some("{\"from\":\"image\"}"));
    assert_eq!(rig.work(), PageOutput::Kill(1));
    let output = rig.answer().unwrap();
    assert_eq!(
        (&output["index"], &output["recycled"]),
        (&json!(2), &json!(true))
    );
    // It is a checkpoint like any other.
    rig.tell(PageInput::WorkerKilled(1, crate::rig::printed("")));
    rig.run("x = 2");
    rig.command("machine.checkpoint.restore", json!({}));
    let restore = rig.posted("restore");
    assert_eq!(restore.worker, 2);
    rig.reply(&restore, json!({"pagesWritten": 3}));
    assert_eq!(rig.answer().unwrap()["index"], 2);
}

#[test]
fn a_refused_import_changes_nothing() {
    let mut rig = Rig::booted();
    rig.run("x = 1");
    rig.import();
    let PageOutput::PlaceImage { .. } = rig.work() else {
        panic!("an image is to be placed")
    };
    rig.image(refusal("MACHINE_IMAGE_ENGINE_MISMATCH"));
    let error = rig.answer().unwrap_err();
    assert_eq!(
        verdict(&error),
        "MACHINE_IMAGE_ENGINE_MISMATCH rejected false"
    );
    rig.quiet();

    rig.import();
    rig.places("/durable/1", &[1, 20]);
    rig.boots(2);
    let adopt = rig.posted("adopt");
    rig.reply(
        &adopt,
        json!({"ok": false, "unsupported": "pointers differ"}),
    );
    assert!(matches!(rig.work(), PageOutput::Kill(2)));
    assert!(matches!(rig.work(), PageOutput::KeepContents(kept) if kept.is_empty()));
    let error = rig.answer().unwrap_err();
    assert_eq!(verdict(&error), "MACHINE_IMAGE_UNSUPPORTED rejected false");
    rig.quiet();
    // The run of before is still the one to save, and no index is used.
    rig.run("x += 1");
    assert_eq!(rig.save(&[1, 8])["index"], 1);
}

#[test]
fn a_placed_image_that_no_store_can_hold_is_refused() {
    let mut rig = Rig::booted();
    rig.import();
    rig.places("/durable/1", &[u32::MAX]);
    let error = rig.answer().unwrap_err();
    assert_eq!(verdict(&error), "PYPROC_INTERNAL rejected false");
    rig.quiet();
}

#[test]
fn a_full_list_takes_no_image() {
    let mut rig = Rig::booted_with(PageSettings {
        max_checkpoints: 1,
        ..settings()
    });
    rig.run("x = 1");
    rig.save(&[1, 7]);
    rig.import();
    let error = rig.answer().unwrap_err();
    assert_eq!(verdict(&error), "MACHINE_CHECKPOINT_LIMIT rejected true");
    rig.quiet();
}

#[test]
fn free_slots_are_offered_to_an_image() {
    let mut rig = Rig::booted();
    rig.run("x = 1");
    rig.save(&[1, 110]);
    rig.run("x = 2");
    rig.save(&[1, 111]);
    rig.command("machine.reset", json!({}));
    let restore = rig.posted("restore");
    rig.reply(&restore, json!({"pagesWritten": 1}));
    let forget = rig.posted("forget");
    rig.reply(&forget, json!({}));
    assert!(matches!(rig.work(), PageOutput::KeepContents(_)));
    rig.answer().unwrap();
    rig.import();
    let free = rig.places("/durable/1", &[1, 110]);
    assert!(free.contains(&110) && free.contains(&111));
    assert!(!free.contains(&100), "the base is in use");
    assert!(
        free.iter().all(|slot| *slot > 3),
        "the boot image is in use"
    );
}

fn starting(load: &str) -> Rig {
    let mut rig = Rig::new(PageSettings {
        load: Some(load.to_owned()),
        ..settings()
    });
    rig.tell(PageInput::Start);
    rig.boots(1);
    rig
}

#[test]
fn a_machine_that_starts_from_an_image_is_ready_when_it_has_its_state() {
    let mut rig = starting("/durable/9");
    rig.places("/durable/9", &[1, 20]);
    rig.adopts(1);
    assert_eq!(rig.said()["type"], "ready");
    // It is not listed, and a killed run goes on from it.
    rig.command("machine.checkpoint.restore", json!({}));
    let error = rig.answer().unwrap_err();
    assert_eq!(verdict(&error), "MACHINE_CHECKPOINT_UNKNOWN rejected false");
    let id = rig.command("machine.run", json!({"code": "while True: pass"}));
    rig.posted("run");
    rig.interrupt(&id, Some(0));
    rig.ends(1, "");
    rig.boots(2);
    rig.adopts(2);
    let error = rig.answer().unwrap_err();
    assert_eq!(verdict(&error), "MACHINE_KILLED rejected true");
    assert_eq!(error["details"]["restored"], restored("guard", None, 0));
}

#[test]
fn an_image_that_cannot_be_started_from_fails_the_boot_with_its_code() {
    let failed = |mut rig: Rig| -> Value {
        let said = rig.said();
        assert_eq!(
            (&said["type"], &said["token"]),
            (&json!("bootFailed"), &json!(CAPABILITY))
        );
        said["details"]["cause"].clone()
    };
    for (code, cause) in [
        ("MACHINE_IMAGE_INVALID", "MACHINE_IMAGE_INVALID"),
        ("MACHINE_CHECKPOINT_LIMIT", "MACHINE_CHECKPOINT_LIMIT"),
        ("ELSE", "MACHINE_BOOT_FAILED"),
    ] {
        let mut rig = starting("/durable/9");
        rig.work();
        rig.image(refusal(code));
        assert_eq!(failed(rig), cause);
    }
    let mut rig = starting("/durable/9");
    rig.places("/durable/9", &[1, 20]);
    let adopt = rig.posted("adopt");
    rig.reply(
        &adopt,
        json!({"ok": false, "unsupported": "pointers differ"}),
    );
    assert_eq!(failed(rig), "MACHINE_IMAGE_UNSUPPORTED");
}
