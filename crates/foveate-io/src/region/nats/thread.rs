//! The thread of the connection: tasks that publish, append and follow.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use async_nats::connection::State;
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::push::{Ordered, OrderedConfig};
use async_nats::jetstream::context::{ContextBuilder, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Config, DiscardPolicy, StorageType};
use async_nats::jetstream::{Context, stream::Stream};
use async_nats::{Client, ConnectOptions, Event};
use foveate_node::region::layout::ServerId;
use foveate_node::region::ledger::Subject;
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use tokio::sync::mpsc::Receiver;
use tokio::task::{JoinSet, LocalSet};

use super::{
    AppendRequest, Applied, MAX_NATS_ENTRIES, MAX_NATS_REQUESTS, NatsError, NatsOptions, Request,
    Shared, count, lock, micros,
};
use crate::region::{MAX_BUS_WAITING, parse_subject, subject_text};

/// An append that is not answered within this counts as failed; it may be applied later all the same.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// The most appends on their way; more are dropped, and repeated by their servers.
const MAX_APPENDS: usize = 256;
/// A follower that has not read an entry this long after it was appended is started anew.
const STUCK_AFTER: Duration = Duration::from_secs(1);
/// The pause before that doubles from the first to the second, while nothing is read.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(30)];
/// Why nothing can be appended or read.
const LOST: &str = "the connection to NATS is lost; trying again";
/// The largest entry: a record, its tag and the broker's headers.
const MAX_MESSAGE: i32 = 512 * 1024;

/// The state that all tasks have.
#[derive(Clone)]
struct Link {
    client: Client,
    ledger: Context,
    world: String,
    shared: Arc<Shared>,
}

/// Connects; returns when it is connected, or has failed.
pub(super) fn start(
    options: NatsOptions,
    world: String,
    waiting: Receiver<Request>,
    shared: Arc<Shared>,
) -> Result<JoinHandle<()>, NatsError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(NatsError::Thread)?;
    let (done, connected) = std::sync::mpsc::sync_channel(1);
    let run = move || {
        LocalSet::new().block_on(&runtime, async move {
            match connect(&options, world, shared).await {
                Ok(link) => {
                    done.send(Ok(())).unwrap_or(());
                    link.run(waiting).await;
                }
                Err(why) => done.send(Err(why)).unwrap_or(()),
            }
        });
        runtime.shutdown_timeout(Duration::from_millis(500));
    };
    let thread = std::thread::Builder::new().name("foveate-nats".into()).spawn(run);
    let thread = thread.map_err(NatsError::Thread)?;
    let gone = || NatsError::Thread(std::io::Error::other("it ended"));
    connected.recv().map_err(|_| gone())??;
    Ok(thread)
}

async fn connect(
    options: &NatsOptions,
    world: String,
    shared: Arc<Shared>,
) -> Result<Link, NatsError> {
    // The part before an @ is secret.
    let shown = options.url.rsplit_once('@').map_or(options.url.as_str(), |(_, host)| host);
    let failed = |cause: String| NatsError::Connect { url: shown.to_owned(), cause };
    let counted = Arc::clone(&shared);
    let settings = ConnectOptions::new()
        .name(format!("foveate {world}"))
        .no_echo()
        .connection_timeout(Duration::from_secs(2))
        .ping_interval(Duration::from_secs(1))
        .subscription_capacity(MAX_BUS_WAITING)
        .client_capacity(MAX_NATS_REQUESTS)
        .max_reconnects(None)
        .reconnect_delay_callback(|tries| Duration::from_millis((50 << tries.min(5)) as u64))
        .event_callback(move |event| {
            if let Event::SlowConsumer(_) = event {
                count(&counted.overflowed);
            }
            match event {
                Event::Disconnected => counted.trouble(LOST),
                Event::Connected => counted.connections.send_modify(|count| *count += 1),
                _ => {}
            }
            async {}
        });
    let settings = match &options.credentials {
        None => settings,
        Some(file) => settings
            .credentials_file(file)
            .await
            .map_err(|cause| NatsError::Credentials { file: file.clone(), cause })?,
    };
    let servers: Vec<String> = options.url.split(',').map(str::to_owned).collect();
    let until = Instant::now() + options.patience;
    let client = loop {
        match settings.clone().connect(servers.as_slice()).await {
            Ok(client) => break client,
            Err(cause) if Instant::now() >= until => return Err(failed(cause.to_string())),
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    };
    let ledger = ContextBuilder::new()
        .timeout(ANSWER_WITHIN)
        .ack_timeout(ANSWER_WITHIN)
        .build(client.clone());
    let link = Link { client, ledger, world, shared };
    let made = link.make_stream(options).await;
    made.map_err(|cause| NatsError::Stream { world: link.world.clone(), cause })?;
    Ok(link)
}

impl Link {
    fn stream_name(&self) -> String {
        format!("foveate-{}", self.world)
    }

    fn subject(&self, subject: Subject) -> String {
        format!("foveate.{}.ledger.{}", self.world, subject_text(subject))
    }

    /// Finds or creates the world's stream, and reads which servers there were.
    async fn make_stream(&self, options: &NatsOptions) -> Result<(), String> {
        let config = Config {
            name: self.stream_name(),
            subjects: vec![format!("foveate.{}.ledger.>", self.world)],
            // A ledger that is full must refuse, not forget.
            discard: DiscardPolicy::New,
            max_bytes: options.max_bytes.map_or(-1, |bytes| i64::from(bytes.0)),
            max_message_size: MAX_MESSAGE,
            storage: StorageType::File,
            num_replicas: options.replicas.max(1),
            ..Config::default()
        };
        let stream: Stream = match self.ledger.get_stream(&config.name).await {
            Ok(stream) => {
                let found = stream.cached_info().config.clone();
                // An operator has changed its size.
                if options.max_bytes.is_some() && found.max_bytes != config.max_bytes {
                    let wanted = Config { max_bytes: config.max_bytes, ..found };
                    self.ledger.update_stream(wanted).await.map_err(|it| it.to_string())?;
                }
                stream
            }
            // Another server may create it at the same time.
            Err(_) => {
                self.ledger.get_or_create_stream(config).await.map_err(|it| it.to_string())?
            }
        };
        let filter = format!("foveate.{}.ledger.server.*", self.world);
        let mut subjects = stream.info_with_subjects(&filter).await.map_err(|it| it.to_string())?;
        let prefix = format!("foveate.{}.ledger.", self.world);
        while let Some(Ok((subject, _))) = subjects.next().await {
            let named = subject.strip_prefix(&prefix).and_then(parse_subject);
            if let Some(Subject::Server(server)) = named {
                lock(&self.shared.servers).insert(server);
            }
        }
        Ok(())
    }

    async fn run(self, mut waiting: Receiver<Request>) {
        let follower = tokio::task::spawn_local(self.clone().follow());
        let mut appends = JoinSet::new();
        let mut inboxes = JoinSet::new();
        while let Some(request) = waiting.recv().await {
            while appends.try_join_next().is_some() {}
            match request {
                Request::Join(me) => {
                    inboxes.abort_all();
                    inboxes.spawn_local(self.clone().receive(me));
                }
                Request::Publish(subject, bytes) => self.publish(subject, bytes).await,
                Request::Append(append) if appends.len() < MAX_APPENDS => {
                    appends.spawn_local(self.clone().append(append));
                }
                Request::Append(_) => lock(&self.shared.status).failed += 1,
                Request::Purge(subject, place) => {
                    appends.spawn_local(self.clone().purge(subject, place));
                }
                Request::Read(subject, place) => {
                    appends.spawn_local(self.clone().read(subject, place));
                }
                Request::End => break,
            }
        }
        follower.abort();
        let flushed = tokio::time::timeout(Duration::from_millis(500), self.client.flush()).await;
        drop(flushed);
    }

    async fn publish(&self, subject: String, bytes: Vec<u8>) {
        // A message that waits for a connection would arrive after it has expired.
        let connected = self.client.connection_state() == State::Connected;
        if connected && self.client.publish(subject, bytes.into()).await.is_ok() {
            count(&self.shared.sent);
        } else {
            count(&self.shared.unsent);
        }
    }

    /// Receives messages for all servers and those for this one.
    async fn receive(self, me: ServerId) {
        let name = |to: &str| format!("foveate.{}.bus.{to}", self.world);
        let all = self.client.subscribe(name("all")).await;
        let own = self.client.subscribe(name(&me.0.to_string())).await;
        let (Ok(all), Ok(own)) = (all, own) else {
            return self.shared.trouble("cannot subscribe to the world's messages");
        };
        let mut both = futures_util::stream::select(all, own);
        while let Some(message) = both.next().await {
            let mut inbox = lock(&self.shared.inbox);
            if inbox.len() < MAX_BUS_WAITING {
                inbox.push_back(message.payload.to_vec());
            } else {
                count(&self.shared.overflowed);
            }
        }
    }

    async fn append(self, it: AppendRequest) {
        // The library would hold it back until there is a connection, and apply it when no task waits for the answer any
        // more. The server repeats it.
        if self.client.connection_state() != State::Connected {
            let mut status = lock(&self.shared.status);
            status.failed += 1;
            status.trouble.get_or_insert_with(|| LOST.to_owned());
            return;
        }
        let begun = Instant::now();
        let message = PublishMessage::build()
            .payload(it.bytes.into())
            .expected_last_subject_sequence(it.place);
        let sent = self.ledger.send_publish(self.subject(it.subject), message).await;
        let answer = match sent {
            Ok(sent) => sent.await,
            Err(why) => Err(why),
        };
        let mut status = lock(&self.shared.status);
        match answer {
            Ok(ack) => {
                (status.latency, status.trouble) = (micros(begun.elapsed()), None);
                status.appended += 1;
                self.shared.highest.fetch_max(ack.sequence, Ordering::Relaxed);
                lock(&self.shared.applied).push_back(Applied {
                    request: it.request,
                    subject: it.subject,
                    number: it.number,
                    place: ack.sequence,
                });
            }
            // The follower reads the entry that came first; the server decides anew then.
            Err(why) if why.kind() == PublishErrorKind::WrongLastSequence => status.conflicts += 1,
            Err(why) => {
                status.failed += 1;
                status.trouble = Some(format!("an append failed: {why}"));
            }
        }
    }

    async fn purge(self, subject: Subject, place: u64) {
        let stream = self.ledger.get_stream_no_info(self.stream_name()).await;
        if let Ok(stream) = stream {
            // Entries that stay are dropped with the next request.
            let purge = stream.purge().filter(self.subject(subject)).sequence(place);
            drop(purge.await);
        }
    }

    /// Reads a subject from its first entry up to a place, which it has reached.
    async fn read(self, subject: Subject, place: u64) {
        loop {
            match self.read_up_to(subject, place).await {
                Ok(entries) => {
                    lock(&self.shared.caught_up).push_back((subject, place, entries));
                    return;
                }
                Err(why) => self.shared.trouble(format!("a log cannot be read: {why}")),
            }
            tokio::time::sleep(PAUSES[0]).await;
        }
    }

    async fn read_up_to(&self, subject: Subject, last: u64) -> Result<Vec<(u64, Vec<u8>)>, String> {
        let mut messages = self.reader(self.subject(subject), 1).await?;
        let mut entries = Vec::new();
        loop {
            let next = tokio::time::timeout(ANSWER_WITHIN, messages.next()).await;
            let message = next.map_err(|_| "it does not arrive".to_owned())?;
            let message = message.ok_or("the reader ended")?.map_err(|it| it.to_string())?;
            let place = message.info().map_err(|it| it.to_string())?.stream_sequence;
            if place <= last {
                entries.push((place, message.payload.to_vec()));
            }
            if place >= last {
                return Ok(entries);
            }
        }
    }

    /// Entries of subjects, from a place on.
    async fn reader(&self, filter_subject: String, from: u64) -> Result<Ordered, String> {
        let stream = self.ledger.get_stream_no_info(self.stream_name()).await;
        let stream = stream.map_err(|it| it.to_string())?;
        let consumer = stream.create_consumer(OrderedConfig {
            deliver_subject: self.client.new_inbox(),
            filter_subject,
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: from },
            ..OrderedConfig::default()
        });
        let consumer = consumer.await.map_err(|it| it.to_string())?;
        consumer.messages().await.map_err(|it| it.to_string())
    }

    /// Reads the ledger, for as long as the process runs.
    async fn follow(self) {
        let (mut next, mut pause) = (1, PAUSES[0]);
        let mut connections = self.shared.connections.subscribe();
        loop {
            let before = next;
            connections.mark_unchanged();
            let read = {
                let (reading, renewed) =
                    (pin!(self.read_on(&mut next)), pin!(connections.changed()));
                match select(reading, renewed).await {
                    Either::Left((read, _)) => read,
                    // A broker that was restarted has forgotten its followers. The library begins them anew as well, but
                    // only after its own attempts without a connection have timed out.
                    Either::Right(_) => {
                        pause = PAUSES[0];
                        continue;
                    }
                }
            };
            if let Err(why) = read {
                self.shared.trouble(format!("the ledger cannot be read: {why}"));
            }
            if next > before {
                pause = PAUSES[0];
            }
            let renewed = tokio::time::timeout(pause, connections.changed()).await.is_ok();
            pause = if renewed { PAUSES[0] } else { (pause * 2).min(PAUSES[1]) };
        }
    }

    /// Reads from a place on, until something is wrong.
    async fn read_on(&self, next: &mut u64) -> Result<(), String> {
        let mut messages = self.reader(format!("foveate.{}.ledger.>", self.world), *next).await?;
        let prefix = format!("foveate.{}.ledger.", self.world);
        let mut behind: Option<Instant> = None;
        loop {
            // Always polled: a follower that is not may miss a restart of the broker.
            match tokio::time::timeout(Duration::from_millis(500), messages.next()).await {
                Ok(Some(Ok(message))) => {
                    let place = message.info().map_err(|it| it.to_string())?.stream_sequence;
                    *next = (*next).max(place + 1);
                    // Subjects that Foveate does not use are ignored.
                    let subject = message.subject.strip_prefix(&prefix).and_then(parse_subject);
                    let mut entries = lock(&self.shared.entries);
                    if entries.len() >= MAX_NATS_ENTRIES {
                        *next = place;
                        return Err("the server is too slow".to_owned());
                    }
                    entries.extend(subject.map(|it| (it, place, message.payload.to_vec())));
                }
                Ok(Some(Err(why))) => return Err(why.to_string()),
                Ok(None) => return Err("the follower ended".to_owned()),
                Err(_) => {}
            }
            let highest = self.shared.highest.load(Ordering::Relaxed);
            behind = (highest >= *next).then(|| behind.unwrap_or_else(Instant::now));
            if behind.is_some_and(|since| since.elapsed() > STUCK_AFTER) {
                return Err("what was appended does not arrive".to_owned());
            }
        }
    }
}
