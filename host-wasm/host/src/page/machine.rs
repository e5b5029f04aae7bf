//! The machine: one worker at a time, its commands in order, its spare, and
//! what happens when a worker must end (machine 3, 9, 14, 15).

use futures_util::future::{Either, select};
use serde_json::Value;
use std::iter;
use std::pin::pin;
use std::rc::Rc;

use super::failure::Failure;
use super::message::{Incarnation, PageTable, Post, Printed, Reply, WorkerCommand, WorkerMessage};
use super::port::{PageOutput, Port, Worker, WorkerEvent};
use super::settings::PageSettings;
use super::states::{Anchor, BASE, Place, State, States};
use crate::clock::{Clock, Millis};
use crate::signal::Signal;

/// A save or restore over this time is an engine failure (machine 19).
const TRANSFER_LIMIT_MS: Millis = 10_000;

/// The second and later soft interrupts come this long after the one before.
const REPEAT_MS: Millis = 500;

/// A guard is not taken of a larger heap (machine 14.3).
const GUARD_HEAP_LIMIT: usize = 128 << 20;

/// Checkpoints that are tried when no worker takes the latest state: each costs
/// a worker.
const EARLIER_STATES: usize = 3;

/// Idle time before the spare is started (machine 14.4).
const SPARE_IDLE_MS: Millis = 500;

/// Asks the running command to stop; the value is the grace before the kill,
/// or `None` for the machine's own.
pub(crate) type Interrupt = Signal<Option<Millis>>;

/// Free slots that a new worker gets; its base needs far fewer.
const LENT_SLOTS: usize = 4096;

/// A booted worker.
pub(crate) struct Booted {
    pub(crate) worker: Worker,
    pub(crate) heap_bytes: u64,
}

/// A worker that was started ahead of need.
struct Spare {
    worker: Worker,
    started: Millis,
    heap_bytes: Option<u64>,
}

/// How a command ended in the worker.
pub(crate) enum End {
    /// It answered. `interrupted` says that a soft interrupt was asked for.
    Reply {
        reply: Box<Reply>,
        table: Option<PageTable>,
        record: Option<String>,
        printed: Printed,
        interrupted: bool,
    },
    /// The incarnation is dead; the machine has no worker now.
    Ended { failure: Failure, printed: Printed },
}

/// Where the machine went on after its worker ended (machine 14.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Restored {
    pub(crate) place: Place,
    pub(crate) lost_runs: u64,
}

/// The machine of one page.
pub(crate) struct Machine {
    pub(crate) port: Port,
    pub(crate) clock: Clock,
    pub(crate) settings: PageSettings,
    pub(crate) states: States,
    pub(crate) run_seq: u64,
    worker: Option<Booted>,
    spare: Option<Spare>,
    next_command: u64,
    idle_since: Millis,
    guard_refused: bool,
    /// Another worker may use slots that the present one was told are free.
    free_changed: bool,
    /// A loss that no reply has told yet.
    untold: Option<Value>,
}

impl Machine {
    /// A machine without a worker; `image_slots` slots hold the boot image.
    pub(crate) fn new(port: Port, clock: Clock, settings: PageSettings, image_slots: u32) -> Self {
        Self {
            port,
            clock,
            settings,
            states: States::new(image_slots),
            run_seq: 0,
            worker: None,
            spare: None,
            next_command: 1,
            idle_since: 0,
            guard_refused: false,
            free_changed: false,
            untold: None,
        }
    }

    /// Boots the first worker.
    pub(crate) async fn start(&mut self) -> Result<(), Failure> {
        let booted = self.boot().await?;
        self.states.at_base(booted.worker.number());
        self.worker = Some(booted);
        if let Some(address) = self.settings.load.clone() {
            let entered = self.start_from(address).await;
            entered.map_err(Failure::boot_image)?;
        }
        self.idle_since = self.clock.now();
        Ok(())
    }

    /// The number of the present incarnation; 0 when there is none.
    pub(crate) fn incarnation(&self) -> Incarnation {
        self.worker.as_ref().map_or(0, |w| w.worker.number())
    }

    async fn boot(&mut self) -> Result<Booted, Failure> {
        let worker = self.spawn();
        let deadline = self.clock.now() + self.settings.boot_timeout_ms;
        self.booted(worker, deadline).await
    }

    /// Starts a worker, with free slots for its base. No other worker may be booting.
    fn spawn(&mut self) -> Worker {
        let mut free = self.states.sweep(self.clock.now());
        free.truncate(LENT_SLOTS);
        self.free_changed = true;
        self.port.spawn(free)
    }

    /// Waits until a started worker is at its base.
    async fn booted(&mut self, mut worker: Worker, deadline: Millis) -> Result<Booted, Failure> {
        let event = {
            let event = pin!(worker.event());
            match select(event, self.clock.sleep_until(deadline)).await {
                Either::Left((event, _)) => Some(event),
                Either::Right(_) => None,
            }
        };
        let failure = match event {
            Some(WorkerEvent::Message {
                message: WorkerMessage::Ready { heap_bytes, .. },
                table: Some(table),
                ..
            }) => {
                self.states.booted(worker.number(), table);
                return Ok(Booted { worker, heap_bytes });
            }
            Some(WorkerEvent::Message {
                message:
                    WorkerMessage::Failed {
                        code,
                        message,
                        item,
                    },
                ..
            }) => Failure::boot(&code, message, item),
            Some(WorkerEvent::Message { .. }) => {
                Failure::boot_failed("the worker did not say that it is ready")
            }
            Some(WorkerEvent::Lost(reason)) => Failure::boot_failed(&reason),
            None => Failure::boot_failed("the worker was not ready in time"),
        };
        (self.states).died(worker.number(), true, self.clock.now());
        drop(worker.kill());
        Err(failure)
    }

    /// What the spare has said so far; a spare that failed is dropped.
    fn look_at_spare(&mut self) {
        while let Some(spare) = &mut self.spare {
            match spare.worker.try_event() {
                None => return,
                Some(WorkerEvent::Message {
                    message: WorkerMessage::Ready { heap_bytes, .. },
                    table: Some(table),
                    ..
                }) => {
                    spare.heap_bytes = Some(heap_bytes);
                    self.states.booted(spare.worker.number(), table);
                }
                Some(_) => self.drop_spare(),
            }
        }
    }

    fn drop_spare(&mut self) {
        if let Some(spare) = self.spare.take() {
            let number = spare.worker.number();
            let saving = spare.heap_bytes.is_none();
            self.states.died(number, saving, self.clock.now());
            drop(spare.worker.kill());
        }
    }

    /// The spare if there is a good one, else a fresh boot.
    async fn next_worker(&mut self) -> Result<Booted, Failure> {
        self.look_at_spare();
        let Some(spare) = self.spare.take() else {
            return self.boot().await;
        };
        if let Some(heap_bytes) = spare.heap_bytes {
            let worker = spare.worker;
            return Ok(Booted { worker, heap_bytes });
        }
        let deadline = spare.started + self.settings.boot_timeout_ms;
        match self.booted(spare.worker, deadline).await {
            Ok(booted) => Ok(booted),
            Err(_) => self.boot().await,
        }
    }

    /// When an idle machine wants to be woken: for the guard, then the spare.
    pub(crate) fn idle_due(&self) -> Option<Millis> {
        let guard = self.wants_guard().then_some(self.settings.guard_idle_ms);
        let spare = (self.settings.spare && self.spare.is_none()).then_some(SPARE_IDLE_MS);
        let wait = guard.into_iter().chain(spare).min()?;
        self.worker.as_ref()?;
        Some(self.idle_since + wait)
    }

    fn wants_guard(&self) -> bool {
        let small = |w: &Booted| w.heap_bytes <= GUARD_HEAP_LIMIT as u64;
        self.states.anchor().runs > 0
            && !self.guard_refused
            && self.worker.as_ref().is_some_and(small)
    }

    /// Does what an idle machine does at [`Machine::idle_due`].
    pub(crate) async fn idle(&mut self) {
        let idle = self.clock.now().saturating_sub(self.idle_since);
        if self.wants_guard() && idle >= self.settings.guard_idle_ms {
            self.take_guard().await;
        }
        if self.settings.spare && self.spare.is_none() && idle >= SPARE_IDLE_MS {
            self.spare = Some(Spare {
                worker: self.spawn(),
                started: self.clock.now(),
                heap_bytes: None,
            });
        }
    }

    /// A command has ended: the machine is idle from now on.
    pub(crate) fn rest(&mut self) {
        self.idle_since = self.clock.now();
    }

    async fn take_guard(&mut self) {
        match self.save().await {
            Ok((seq, state, _)) => {
                if let Some(dropped) = self.states.set_guard(seq, state) {
                    self.forget(vec![dropped]).await;
                }
            }
            Err(failure) => {
                self.guard_refused = true;
                if let Some(loss) = failure.loss() {
                    self.untold = Some(loss);
                }
            }
        }
        self.keep_contents();
    }

    /// Saves the present state under a new number.
    pub(crate) async fn save(&mut self) -> Result<(u64, State, Box<Reply>), Failure> {
        self.require_worker().await?;
        let mut free = self.changed_free();
        loop {
            let swept = free.is_some();
            let seq = self.states.reserve();
            let id = self.command_number();
            let command = WorkerCommand::Save { id, seq };
            let end = self.transfer(command, None, None, free.take()).await;
            match end {
                End::Reply {
                    reply,
                    table: Some(table),
                    record: Some(record),
                    ..
                } if reply.ok => {
                    let state = State {
                        table: Rc::new(table),
                        record: record.into(),
                        identities: reply.identities.clone().unwrap_or_default(),
                        live_in: self.incarnation(),
                        portable: reply.portable.unwrap_or(false),
                    };
                    return Ok((seq, state, reply));
                }
                End::Reply { reply, .. } if reply.limit && !swept => {
                    free = Some(self.sweep().await);
                }
                End::Reply { reply, .. } => return Err(self.refusal(*reply).await),
                End::Ended { failure, .. } => return Err(self.recover(failure).await),
            }
        }
    }

    /// The free slots, if the present worker has to be told. While a spare is booting, which uses
    /// some of them, none is free.
    fn changed_free(&mut self) -> Option<Vec<u32>> {
        self.look_at_spare();
        let now = self.clock.now();
        if !self.free_changed && !self.states.sweep_is_due(now) {
            return None;
        }
        let booting = |spare: &Spare| spare.heap_bytes.is_none();
        if self.spare.as_ref().is_some_and(booting) {
            return Some(Vec::new());
        }
        self.free_changed = false;
        Some(self.states.sweep(now))
    }

    /// Free slots; waits for a booting spare, whose base no table names yet.
    pub(crate) async fn sweep(&mut self) -> Vec<u32> {
        self.look_at_spare();
        if let Some(spare) = self.spare.take_if(|spare| spare.heap_bytes.is_none()) {
            let started = spare.started;
            let deadline = started + self.settings.boot_timeout_ms;
            if let Ok(booted) = self.booted(spare.worker, deadline).await {
                self.spare = Some(Spare {
                    worker: booted.worker,
                    started,
                    heap_bytes: Some(booted.heap_bytes),
                });
            }
        }
        self.states.sweep(self.clock.now())
    }

    /// Turns a reply that is not a success into a failure. A reply that has no
    /// place here means that the worker does not keep to the contract.
    async fn refusal(&mut self, reply: Reply) -> Failure {
        if let Some(refused) = reply.refused {
            return Failure::refused(refused);
        }
        if reply.limit {
            return Failure::store_full();
        }
        let ended = self.end_worker(
            Failure::worker_lost("the reply does not fit the command"),
            false,
        );
        let End::Ended { failure, .. } = ended.await else {
            return Failure::worker_lost("the worker is gone");
        };
        self.recover(failure).await
    }

    /// Restores a state that the present incarnation holds. The result is the
    /// number of pages written.
    pub(crate) async fn restore_in_place(&mut self, seq: u64) -> Result<u64, Failure> {
        let id = self.command_number();
        let command = WorkerCommand::Restore { id, seq };
        match self.transfer(command, None, None, None).await {
            End::Reply { reply, .. } if reply.ok => Ok(reply.pages_written.unwrap_or(0)),
            End::Reply { .. } => {
                let failure = Failure::engine_failed("the state could not be restored in place");
                match self.end_worker(failure, false).await {
                    End::Ended { failure, .. } => Err(failure),
                    End::Reply { .. } => Err(Failure::worker_lost("the worker is gone")),
                }
            }
            End::Ended { failure, .. } => Err(failure),
        }
    }

    /// Ends the present worker and brings a fresh one to a saved state. The
    /// result is the number of pages written. After a failure there is no
    /// worker, and the machine still stands where it stood.
    pub(crate) async fn recycle_to(&mut self, seq: u64, place: Place) -> Result<u64, Failure> {
        let present = self.worker.take();
        self.drop_worker(present);
        self.worker = Some(self.next_worker().await?);
        let entered = self.enter(seq, place).await;
        if entered.is_err() {
            let fresh = self.worker.take();
            self.drop_worker(fresh);
        }
        entered
    }

    /// Tries a fresh worker on a saved state: the present one ends only when
    /// the fresh one is there, else it stays as it is.
    pub(crate) async fn exchange_for(&mut self, seq: u64, place: Place) -> Result<u64, Failure> {
        let fresh = self.next_worker().await?;
        let present = self.worker.replace(fresh);
        let (entered, ended) = match self.enter(seq, place).await {
            Ok(pages) => (Ok(pages), present),
            Err(failure) => {
                self.free_changed = true;
                let fresh = std::mem::replace(&mut self.worker, present);
                (Err(failure), fresh)
            }
        };
        self.drop_worker(ended);
        entered
    }

    fn drop_worker(&mut self, worker: Option<Booted>) {
        if let Some(booted) = worker {
            let number = booted.worker.number();
            self.states.died(number, false, self.clock.now());
            drop(booted.worker.kill());
        }
    }

    /// Brings the present worker, which has run nothing, to a state.
    async fn enter(&mut self, seq: u64, place: Place) -> Result<u64, Failure> {
        let pages = match seq {
            BASE => {
                self.states.at_base(self.incarnation());
                0
            }
            seq => self.adopt(seq, place).await?,
        };
        self.guard_refused = false;
        self.free_changed = true;
        Ok(pages)
    }

    /// Brings the present worker, which is at its base, to a saved state. The
    /// result is the number of pages written.
    pub(crate) async fn adopt(&mut self, seq: u64, place: Place) -> Result<u64, Failure> {
        let Some(state) = self.states.saved(seq) else {
            return Err(Failure::unknown_checkpoint());
        };
        let (table, record) = (state.table.to_vec(), state.record.to_string());
        let heap_bytes = table.len() as u64 * 4096;
        let id = self.command_number();
        let command = WorkerCommand::Adopt { id, seq };
        let free = Some(self.sweep().await);
        match self
            .transfer(command, Some(table), Some(record), free)
            .await
        {
            End::Reply { reply, .. } if reply.ok => {
                self.states.restored(seq, place, self.incarnation());
                if let Some(booted) = &mut self.worker {
                    booted.heap_bytes = booted.heap_bytes.max(heap_bytes);
                }
                Ok(reply.pages_written.unwrap_or(0))
            }
            End::Reply { reply, .. } => {
                let text = reply.unsupported.or(reply.failed).unwrap_or_default();
                Err(Failure::unsupported(&text))
            }
            End::Ended { failure, .. } => Err(failure),
        }
    }

    /// After the worker ended: says in the failure where the machine goes on
    /// (machine 14.3).
    pub(crate) async fn recover(&mut self, failure: Failure) -> Failure {
        match self.go_on().await {
            Ok(restored) => failure.restored(restored),
            Err(boot) => failure.without_machine(&boot),
        }
    }

    /// Continues in a fresh worker at the state the machine stood on, else at
    /// one before it, else at base. It fails only when no worker boots.
    async fn go_on(&mut self) -> Result<Restored, Failure> {
        let since_base = self.states.runs_since_base();
        let before = self.states.before_anchor().into_iter().take(EARLIER_STATES);
        let targets = iter::once(self.states.anchor()).chain(before);
        for Anchor { seq, place, runs } in targets {
            match self.recycle_to(seq, place).await {
                Ok(_) => {
                    return Ok(Restored {
                        place,
                        lost_runs: runs,
                    });
                }
                Err(failure) if failure.is_boot_failure() => return Err(failure),
                Err(_) => {}
            }
        }
        self.recycle_to(BASE, Place::Base).await?;
        Ok(Restored {
            place: Place::Base,
            lost_runs: since_base,
        })
    }

    /// Gives a machine that lost its worker a fresh one. What is lost with the
    /// old one is told by the next output.
    pub(crate) async fn require_worker(&mut self) -> Result<(), Failure> {
        if self.worker.is_some() {
            return Ok(());
        }
        let restored = self.go_on().await?;
        if restored.lost_runs > 0 {
            let lost = Failure::worker_lost("it ended between two commands");
            self.untold = lost.restored(restored).loss();
        }
        Ok(())
    }

    /// Where the machine went on when nobody waited for an answer; once.
    pub(crate) fn take_untold(&mut self) -> Option<Value> {
        self.untold.take()
    }

    /// Drops live records in the worker; a failure shows at the next command.
    pub(crate) async fn forget(&mut self, seqs: Vec<u64>) {
        let id = self.command_number();
        if !seqs.is_empty() && self.worker.is_some() {
            let command = WorkerCommand::Forget { id, seqs };
            self.transfer(command, None, None, None).await;
        }
    }

    /// Lets the page drop file contents that no saved state names.
    pub(crate) fn keep_contents(&self) {
        let identities = self.states.identities().into_iter().collect();
        self.port.push(PageOutput::KeepContents(identities));
    }

    pub(crate) fn command_number(&mut self) -> u64 {
        let id = self.next_command;
        self.next_command += 1;
        id
    }

    /// A run: it may take any time, and an interrupt starts the ladder.
    pub(crate) async fn run(
        &mut self,
        code: String,
        grace: Option<Millis>,
        interrupt: &Interrupt,
    ) -> End {
        self.run_seq += 1;
        self.guard_refused = false;
        let id = self.command_number();
        let run_seq = self.run_seq;
        self.post(WorkerCommand::Run { id, code, run_seq }, None, None, None);
        let mut ladder: Option<Ladder> = None;
        loop {
            let Some(booted) = &mut self.worker else {
                let failure = Failure::worker_lost("the worker is gone");
                return End::Ended {
                    failure,
                    printed: Printed::default(),
                };
            };
            let step = {
                let event = pin!(booted.worker.event());
                let next = pin!(async {
                    match &ladder {
                        None => Step::Begin(interrupt.wait().await),
                        Some(ladder) => {
                            self.clock.sleep_until(ladder.due()).await;
                            Step::Due
                        }
                    }
                });
                match select(event, next).await {
                    Either::Left((event, _)) => Step::Event(Box::new(event)),
                    Either::Right((step, _)) => step,
                }
            };
            let now = self.clock.now();
            match step {
                Step::Event(event) => {
                    let end = self.answered(id, *event, ladder.is_some()).await;
                    return end;
                }
                Step::Begin(asked) => {
                    let grace = asked.or(grace).unwrap_or(self.settings.interrupt_grace_ms);
                    ladder = Some(Ladder::new(now, grace));
                }
                Step::Due => {}
            }
            if let Some(ladder) = &mut ladder {
                match ladder.step(now) {
                    Rung::Interrupt => booted.worker.interrupt(),
                    Rung::Kill => return self.end_worker(Failure::killed(), false).await,
                }
            }
        }
    }

    /// A save, restore, adoption or clean-up: short, never interrupted, and an
    /// engine failure when it takes too long.
    async fn transfer(
        &mut self,
        command: WorkerCommand,
        table: Option<PageTable>,
        record: Option<String>,
        free: Option<Vec<u32>>,
    ) -> End {
        let saving = matches!(command, WorkerCommand::Save { .. });
        let id = match command {
            WorkerCommand::Run { id, .. }
            | WorkerCommand::Save { id, .. }
            | WorkerCommand::Restore { id, .. }
            | WorkerCommand::Adopt { id, .. }
            | WorkerCommand::Forget { id, .. } => id,
        };
        self.post(command, table, record, free);
        let event = match &mut self.worker {
            None => None,
            Some(booted) => {
                let event = pin!(booted.worker.event());
                match select(event, self.clock.sleep(TRANSFER_LIMIT_MS)).await {
                    Either::Left((event, _)) => Some(event),
                    Either::Right(_) => None,
                }
            }
        };
        match event {
            Some(event) => self.answered(id, event, false).await,
            None => {
                let failure = Failure::engine_failed("the worker did not finish in time");
                self.end_worker(failure, saving).await
            }
        }
    }

    fn post(
        &self,
        command: WorkerCommand,
        table: Option<PageTable>,
        record: Option<String>,
        free: Option<Vec<u32>>,
    ) {
        if let Some(booted) = &self.worker {
            booted.worker.post(Post {
                command,
                table,
                record,
                free,
            });
        }
    }

    /// The end that an event of the worker means for the command `id`.
    async fn answered(&mut self, id: u64, event: WorkerEvent, interrupted: bool) -> End {
        match event {
            WorkerEvent::Message {
                message: WorkerMessage::Reply(reply),
                table,
                record,
                printed,
            } if reply.id == id => match &reply.failed {
                Some(text) => {
                    let end = self.end_worker(Failure::engine_failed(text), false).await;
                    with_output(end, printed)
                }
                None => {
                    if let (Some(bytes), Some(booted)) = (reply.heap_bytes, &mut self.worker) {
                        booted.heap_bytes = bytes;
                    }
                    End::Reply {
                        reply,
                        table,
                        record,
                        printed,
                        interrupted,
                    }
                }
            },
            WorkerEvent::Message { .. } => {
                let failure = Failure::worker_lost("the worker answered out of turn");
                self.end_worker(failure, true).await
            }
            WorkerEvent::Lost(reason) => self.end_worker(Failure::worker_lost(&reason), true).await,
        }
    }

    /// Ends the present worker because of `failure`.
    async fn end_worker(&mut self, failure: Failure, while_saving: bool) -> End {
        let printed = match self.worker.take() {
            None => Printed::default(),
            Some(booted) => {
                let number = booted.worker.number();
                self.states.died(number, while_saving, self.clock.now());
                booted.worker.kill().await
            }
        };
        End::Ended { failure, printed }
    }
}

/// An engine that failed has answered: its output came with the answer.
fn with_output(end: End, answered: Printed) -> End {
    match end {
        End::Ended { failure, printed } if printed.stdout_bytes == 0 => End::Ended {
            failure,
            printed: answered,
        },
        end => end,
    }
}

enum Step {
    Event(Box<WorkerEvent>),
    Begin(Option<Millis>),
    Due,
}

/// The interrupt ladder of one run (machine 14.1).
struct Ladder {
    kill_at: Millis,
    next: Millis,
}

#[derive(Debug, PartialEq, Eq)]
enum Rung {
    Interrupt,
    Kill,
}

impl Ladder {
    fn new(now: Millis, grace: Millis) -> Self {
        Self {
            kill_at: now.saturating_add(grace),
            next: now,
        }
    }

    fn due(&self) -> Millis {
        self.next.min(self.kill_at)
    }

    fn step(&mut self, now: Millis) -> Rung {
        if now >= self.kill_at {
            return Rung::Kill;
        }
        self.next = now + REPEAT_MS;
        Rung::Interrupt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ladder_interrupts_each_half_second_and_kills_after_the_grace() {
        let mut ladder = Ladder::new(100, 1200);
        let mut rungs = Vec::new();
        loop {
            let now = ladder.due();
            let rung = ladder.step(now);
            let last = rung == Rung::Kill;
            rungs.push((now, rung));
            if last {
                break;
            }
        }
        let soft = [100, 600, 1100].map(|at| (at, Rung::Interrupt));
        assert_eq!(rungs[..3], soft);
        assert_eq!(rungs[3], (1300, Rung::Kill));
    }

    #[test]
    fn no_grace_kills_at_once() {
        let mut ladder = Ladder::new(7, 0);
        assert_eq!((ladder.due(), ladder.step(7)), (7, Rung::Kill));
    }
}
