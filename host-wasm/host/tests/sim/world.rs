//! Everything between the parts: time, the order of events, and what must hold
//! after each.

use pyproc_host::page::PageInput;
use pyproc_host::{Host, HostSettings, Input, Output};
use serde_json::Value;
use std::collections::BTreeMap;

use crate::agent::Agent;
use crate::page::Page;
use crate::rng::Rng;

pub const CAPABILITY: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQ";

/// A simulation that needs more events than this does not end.
const MAX_EVENTS: usize = 20_000;

/// Most things a host may ask for because of one input.
const MAX_OUTPUTS: usize = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Honesty {
    /// Workers fail and die, but what they say is so.
    Truthful,
    /// Workers also say what is not so.
    Lying,
}

#[derive(Debug)]
pub enum Event {
    AgentSays(Value),
    AgentCancels(String),
    AgentAsks,
    AgentLeaves,
    PageStarts {
        page: u32,
    },
    PageConnects {
        page: u32,
    },
    PageDies {
        page: u32,
    },
    ToPage {
        page: u32,
        text: String,
    },
    ToHost {
        page: u32,
        text: String,
    },
    Boot {
        page: u32,
        worker: u64,
    },
    Finish {
        page: u32,
        worker: u64,
        command: u64,
    },
    Lie {
        page: u32,
        worker: u64,
    },
    Killed {
        page: u32,
        worker: u64,
    },
    LateWrites {
        page: u32,
        writes: Vec<(u32, u64)>,
    },
}

pub struct World {
    now: u64,
    rng: Rng,
    honesty: Honesty,
    host: Host,
    agent: Agent,
    pages: BTreeMap<u32, Page>,
    events: BTreeMap<(u64, u64), Event>,
    scheduled: u64,
    last_to_page: u64,
    exit: Option<u8>,
    verbose: bool,
}

impl World {
    pub fn new(seed: u64, honesty: Honesty) -> Self {
        let mut rng = Rng::new(seed);
        let host = Host::new(HostSettings {
            capability: CAPABILITY.to_owned(),
            operations: [
                "machine.run",
                "machine.checkpoint.save",
                "machine.checkpoint.restore",
                "machine.reset",
            ]
            .map(str::to_owned)
            .to_vec(),
            automation_space: None,
            timeout_ms: 3000,
            boot_timeout_ms: 180_000,
            save_on_exit: false,
        });
        let mut world = Self {
            now: 0,
            honesty,
            host: host.unwrap(),
            agent: Agent::new(honesty),
            pages: BTreeMap::from([(1, Page::new(1, honesty, &mut rng))]),
            events: BTreeMap::new(),
            scheduled: 0,
            last_to_page: 0,
            exit: None,
            verbose: false,
            rng,
        };
        world.write_script();
        world
    }

    pub fn verbose(mut self) -> Self {
        self.verbose = true;
        self
    }

    /// What happens whatever the parts do.
    fn write_script(&mut self) {
        self.at(0, Event::AgentSays(Agent::hello()));
        let start = self.rng.below(100);
        self.at(start, Event::PageStarts { page: 1 });
        let mut at = 0;
        for _ in 0..3 + self.rng.below(25) {
            at += match self.rng.below(10) {
                0 => self.rng.below(3000),
                1..4 => self.rng.below(200),
                _ => self.rng.below(30),
            };
            self.at(at, Event::AgentAsks);
        }
        let end = at + self.rng.below(2000);
        if self.rng.chance(8) {
            let at = self.rng.below(end + 1);
            self.at(at, Event::PageDies { page: 1 });
        }
        if self.rng.chance(8) {
            let at = self.rng.below(end + 1);
            let page = Page::new(2, self.honesty, &mut self.rng);
            self.pages.insert(2, page);
            self.at(at, Event::PageStarts { page: 2 });
        }
        if self.rng.chance(40) {
            self.at(end, Event::AgentLeaves);
        }
    }

    fn at(&mut self, time: u64, event: Event) {
        self.scheduled += 1;
        self.events.insert((time, self.scheduled), event);
    }

    /// Runs to the end; the result is the number of terminals.
    pub fn run(mut self) -> u64 {
        let mut steps = 0;
        while self.step() {
            steps += 1;
            assert!(steps < MAX_EVENTS, "it does not come to rest");
        }
        assert_eq!(self.agent.waiting(), 0, "requests without a terminal");
        if let Some(code) = self.exit {
            assert_eq!(code, 0);
        }
        for code in self.agent.not_sent() {
            let sent = self.pages.values().any(|page| page.executed.contains(code));
            assert!(!sent, "{code} ran although it was not sent");
        }
        self.agent.terminals()
    }

    /// One event, or the next moment that a part waits for; false at rest.
    fn step(&mut self) -> bool {
        let deadlines = self.pages.values().filter_map(Page::deadline);
        let deadline = deadlines.chain(self.host.deadline()).min();
        let event = self.events.keys().next().map(|(time, _)| *time);
        let tick = match (event, deadline) {
            (None, None) => return false,
            (Some(event), Some(deadline)) => deadline < event,
            (event, _) => event.is_none(),
        };
        if tick {
            let late = match self.rng.below(8) {
                0 => self.rng.below(30),
                _ => 0,
            };
            self.now = self.now.max(deadline.unwrap_or(0) + late);
            self.tick();
        } else if let Some(((time, _), event)) = self.events.pop_first() {
            self.now = self.now.max(time);
            if self.verbose {
                eprintln!("{:>6} {event:?}", self.now);
            }
            self.happens(event);
        }
        true
    }

    fn tick(&mut self) {
        let now = self.now;
        if self.host.deadline().is_some_and(|at| at <= now) {
            self.tell_host(Input::Tick);
        }
        let due = |page: &Page| page.deadline().is_some_and(|at| at <= now);
        let due: Vec<u32> = (self.pages.values().filter(|page| due(page)))
            .map(|page| page.link)
            .collect();
        for page in due {
            self.tell_page(page, PageInput::Tick);
        }
        let left = self.pages.values().filter_map(Page::deadline);
        let left = left.chain(self.host.deadline()).min();
        assert!(
            left.is_none_or(|at| at > now),
            "a deadline stays in the past"
        );
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::AgentSays(frame) => self.agent_says(&frame),
            Event::AgentCancels(id) => self.agent_says(&Agent::cancel(&id)),
            Event::AgentAsks => {
                if self.exit.is_some() {
                    return;
                }
                let (id, frame) = self.agent.request(&mut self.rng);
                if self.rng.chance(15) {
                    let at = self.now + self.rng.below(400);
                    self.at(at, Event::AgentCancels(id));
                }
                self.agent_says(&frame);
            }
            Event::AgentLeaves => self.tell_host(Input::AgentEof),
            Event::PageStarts { page } => {
                self.at(self.now, Event::PageConnects { page });
                self.tell_page(page, PageInput::Start);
            }
            Event::PageConnects { page } => self.tell_host(Input::PageOpened(page)),
            Event::PageDies { page } => {
                self.drop_page(page);
                self.tell_host(Input::PageClosed(page));
            }
            Event::ToPage { page, text } => self.tell_page(page, PageInput::BridgeMessage(text)),
            Event::ToHost { page, text } => {
                if self.page(page).is_some() {
                    self.tell_host(Input::PageMessage(page, text));
                }
            }
            Event::Boot { page, worker } => {
                let input = self
                    .page(page)
                    .and_then(|(page, rng)| page.boot(worker, rng));
                self.tell_page_maybe(page, input);
            }
            Event::Finish {
                page,
                worker,
                command,
            } => {
                let input = self
                    .page(page)
                    .and_then(|(page, _)| page.finish(worker, command));
                self.tell_page_maybe(page, input);
            }
            Event::Lie { page, worker } => {
                let lies = self.page(page).map(|(page, rng)| page.lie(worker, rng));
                for lie in lies.unwrap_or_default() {
                    self.tell_page(page, lie);
                }
            }
            Event::Killed { page, worker } => self.tell_page(page, Page::killed(worker)),
            Event::LateWrites { page, writes } => {
                if let Some((page, _)) = self.page(page) {
                    page.write(&writes);
                }
            }
        }
    }

    fn page(&mut self, link: u32) -> Option<(&mut Page, &mut Rng)> {
        let page = self.pages.get_mut(&link).filter(|page| page.open)?;
        Some((page, &mut self.rng))
    }

    fn agent_says(&mut self, frame: &Value) {
        let mut bytes = format!("{frame}\n").into_bytes();
        if self.rng.chance(20) {
            let rest = bytes.split_off(self.rng.below(bytes.len() as u64) as usize);
            self.tell_host(Input::AgentBytes(bytes));
            bytes = rest;
        }
        self.tell_host(Input::AgentBytes(bytes));
    }

    fn tell_page_maybe(&mut self, page: u32, input: Option<PageInput>) {
        if let Some(input) = input {
            self.tell_page(page, input);
        }
    }

    fn tell_page(&mut self, link: u32, input: PageInput) {
        let now = self.now;
        let Some((page, rng)) = self.page(link) else {
            return;
        };
        for (time, event) in page.tell(now, input, rng) {
            if self.verbose {
                eprintln!("{now:>6}     at {time}: {event:?}");
            }
            self.at(time, event);
        }
    }

    fn tell_host(&mut self, input: Input) {
        self.host.handle(self.now, input);
        let mut outputs = 0;
        while let Some(output) = self.host.poll() {
            outputs += 1;
            assert!(outputs <= MAX_OUTPUTS, "one input, too many outputs");
            if self.verbose {
                eprintln!("{:>6}   host {output:?}", self.now);
            }
            match output {
                Output::AgentLine(line) => {
                    assert_eq!(self.exit, None, "a line after the exit");
                    self.agent.hears(&line);
                }
                Output::PageMessage(page, text) => {
                    self.last_to_page = self.last_to_page.max(self.now + self.rng.below(20));
                    self.at(self.last_to_page, Event::ToPage { page, text });
                }
                Output::PageClose { link, .. } => self.drop_page(link),
                Output::Exit(code) => {
                    let before = self.exit.replace(code);
                    assert_eq!(before, None, "a second exit");
                    for page in [1, 2] {
                        self.drop_page(page);
                    }
                }
                Output::Ledger(..) => {}
                Output::ImageOpen { .. } | Output::Receive { .. } | Output::Diagnostic(_) => {
                    panic!("nobody asked for an image")
                }
            }
        }
    }

    /// A page and its workers are gone.
    fn drop_page(&mut self, link: u32) {
        if let Some((page, _)) = self.page(link) {
            page.open = false;
            self.agent.oracle.lost_machine();
        }
    }
}
