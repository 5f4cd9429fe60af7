//! Network bandwidth: TCP flows that send as fast as the link takes it, or at a share of it.

mod socket;

use super::pace::{Bucket, Unheld};
use super::{Kernel, Link, Probe};
use crate::{Intensity, NetworkOptions, PressureError, netns};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket::{keep_ahead, queued, round_trip, set_pace};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes offered in one call.
const CHUNK: usize = 128 * 1024;
/// Calls a burst at most.
const CALLS: usize = 8;
/// Slower flows (bytes a second) are paced by the kernel, evenly; faster ones by chunks.
const KERNEL_PACED: f64 = 125e6;
/// How long a burst waits for room in the socket before it looks whether it shall end.
const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
/// Time between two attempts to connect again.
const RETRY: Duration = Duration::from_millis(200);
/// How long the first connection may take to be made.
const CONNECT: Duration = Duration::from_secs(3);

/// One flow. At 100 there is no limit (B-2); below, it is held to its part of the link.
pub(crate) struct Flow {
    stream: TcpStream,
    peer: SocketAddr,
    options: NetworkOptions,
    sent: u64,
    acknowledged: u64,
    /// If the full rate is to be learnt while arming: with whom.
    link: Option<Arc<Link>>,
    /// Bytes per second at full speed, given or learnt.
    rate: Option<f64>,
    intensity: Intensity,
    paced: Option<u64>,
    bucket: Bucket,
    unheld: Unheld,
    begun: Instant,
    lost: u64,
    payload: Box<[u8]>,
}

/// Connects one flow to `peer` from the namespace in the options. With `link`, it learns while arming
/// how much it could send, since it will have to send less (unless the options tell).
pub(crate) fn connect(
    peer: SocketAddr,
    options: &NetworkOptions,
    link: Option<Arc<Link>>,
) -> Result<Flow, PressureError> {
    let stream = open(peer, options, CONNECT)?;
    let rate = options.link_bits_per_s.map(|bits| bits / 8.0 / options.flows.max(1) as f64);
    let flow = Flow {
        stream,
        peer,
        options: options.clone(),
        sent: 0,
        acknowledged: 0,
        link: link.filter(|_| rate.is_none()),
        rate,
        intensity: Intensity::FULL,
        paced: None,
        bucket: Bucket::default(),
        unheld: Unheld::default(),
        begun: Instant::now(),
        lost: 0,
        payload: vec![0x51; CHUNK].into(),
    };
    flow.keep_queue_short();
    Ok(flow)
}

fn open(
    peer: SocketAddr,
    options: &NetworkOptions,
    patience: Duration,
) -> Result<TcpStream, PressureError> {
    let stream = netns::within(options.netns.as_deref(), || {
        TcpStream::connect_timeout(&peer, patience)
            .map_err(|source| PressureError::Peer { peer, source })
    })?;
    let refused = |e: io::Error| {
        PressureError::system("cannot use the congestion control", &options.congestion, e)
    };
    rustix::net::sockopt::set_tcp_congestion(&stream, &options.congestion)
        .map_err(|e| refused(e.into()))?;
    stream.set_nonblocking(true).map_err(|source| PressureError::Peer { peer, source })?;
    Ok(stream)
}

impl Flow {
    /// Sends until the socket is full, so many chunks at most. False if it is full.
    fn send(&mut self, calls: usize) -> io::Result<bool> {
        for _ in 0..calls {
            if self.write()?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Offers a chunk; gives how much of it was taken, none if the socket is full.
    fn write(&mut self) -> io::Result<Option<usize>> {
        use std::io::Write;
        match self.stream.write(&self.payload) {
            Ok(bytes) => {
                self.sent += bytes as u64;
                Ok(Some(bytes))
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(Some(0)),
            Err(e) => Err(e),
        }
    }

    /// Bytes that the peer acknowledged since the last call: sent, less what still lies here.
    fn newly_acknowledged(&mut self) -> io::Result<u64> {
        let waiting = queued(&self.stream)?;
        let acknowledged = self.sent.saturating_sub(waiting).max(self.acknowledged);
        let new = acknowledged - self.acknowledged;
        self.acknowledged = acknowledged;
        Ok(new)
    }

    /// Bytes a second that the intensity allows; none if nothing holds the flow.
    fn held_to(&self) -> Option<f64> {
        let rate = self.rate.filter(|_| self.intensity < Intensity::FULL)?;
        Some(rate * self.intensity.share())
    }

    /// Sets the kernel's pace: that of a slow flow, else none.
    fn keep_pace(&mut self, held_to: Option<f64>) {
        let slow = held_to.filter(|rate| *rate < KERNEL_PACED);
        let wanted = slow.map_or(u64::MAX, |rate| (rate as u64).max(1));
        // Once a flow was paced, "no limit" must be said too.
        if self.paced != Some(wanted) && (wanted != u64::MAX || self.paced.is_some()) {
            set_pace(&self.stream, wanted);
            self.paced = Some(wanted);
        }
    }

    /// Lets little of what is sent wait in the socket. Over loopback nothing waits there for long.
    fn keep_queue_short(&self) {
        if !self.peer.ip().is_loopback() {
            keep_ahead(&self.stream, self.rate);
        }
    }

    /// A chunk of a fast flow that is held, or a rest until there is allowance for one.
    fn send_held(&mut self, rate: f64) -> io::Result<bool> {
        match self.bucket.take(self.begun.elapsed(), rate, CHUNK) {
            Ok(()) => {
                let sent = self.write()?;
                self.bucket.give_back(CHUNK - sent.unwrap_or(0));
                Ok(sent.is_some())
            }
            Err(wait) => {
                std::thread::sleep(wait);
                Ok(true)
            }
        }
    }

    /// Over loopback the full rate is what the CPU has time to copy, which changes: it is learnt
    /// anew whenever nothing holds the flow.
    fn learn_again(&mut self, held: bool) {
        if held || self.link.is_none() || !self.peer.ip().is_loopback() {
            self.unheld.end();
            return;
        }
        let rate = self.unheld.rate(self.begun.elapsed(), self.acknowledged);
        self.rate = rate.or(self.rate);
    }

    /// Connects again after a loss. Counters go on; what was not acknowledged is not counted.
    fn reconnect(&mut self) {
        self.lost += u64::from(self.sent != 0);
        if let Ok(stream) = open(self.peer, &self.options, RETRY) {
            self.stream = stream;
            (self.sent, self.acknowledged, self.paced) = (0, 0, None);
            self.unheld.end();
            self.keep_queue_short();
        } else {
            self.sent = 0;
            self.acknowledged = 0;
            std::thread::sleep(RETRY);
        }
    }

    fn try_burst(&mut self) -> io::Result<u64> {
        let held_to = self.held_to();
        self.keep_pace(held_to);
        let room = match held_to {
            Some(rate) if rate >= KERNEL_PACED => self.send_held(rate)?,
            _ => self.send(CALLS)?,
        };
        if !room {
            let _ = poll(&mut [PollFd::new(&self.stream, PollFlags::OUT)], Some(&WAIT));
        }
        let new = self.newly_acknowledged()?;
        self.learn_again(held_to.is_some());
        Ok(new)
    }
}

impl Kernel for Flow {
    fn prepare(&mut self) {
        if let Some(link) = self.link.clone() {
            self.rate = link.learn(|| self.try_burst()).ok().flatten();
            self.keep_queue_short();
        }
    }

    fn set_intensity(&mut self, intensity: Intensity) {
        self.intensity = intensity;
    }

    fn burst(&mut self) -> Result<u64, String> {
        Ok(self.try_burst().unwrap_or_else(|_| {
            self.reconnect();
            0
        }))
    }

    fn probe(&mut self) -> Option<Probe> {
        round_trip(&self.stream).map(|took| Probe { took, accesses: 1 })
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![format!("flows of {} to {}", self.options.congestion, self.peer)];
        match self.rate {
            Some(rate) if self.link.is_some() => {
                notes.push(format!("a flow's part of the link, learnt: {:.0} Mbit/s", rate * 8e-6));
            }
            None if self.link.is_some() => {
                notes.push("the link's rate could not be learnt: not paced".to_owned());
            }
            _ => {}
        }
        if self.lost > 0 {
            notes.push(format!("connection lost {} times", self.lost));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sink;

    fn flow(change: impl FnOnce(&mut NetworkOptions)) -> (Sink, Flow) {
        let sink = Sink::start("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let mut options = NetworkOptions { flows: 1, ..NetworkOptions::default() };
        change(&mut options);
        let flow = connect(sink.address(), &options, None).unwrap();
        (sink, flow)
    }

    #[test]
    fn work_is_what_the_peer_got() {
        let (sink, mut flow) = flow(|_| ());
        let (mut work, end) = (0, Instant::now() + Duration::from_secs(30));
        while work < 20_000_000 && Instant::now() < end {
            work += flow.burst().unwrap();
        }
        // Let what is under way arrive, without sending more.
        while queued(&flow.stream).unwrap() > 0 && Instant::now() < end {
            std::thread::yield_now();
        }
        work += flow.newly_acknowledged().unwrap();
        while sink.bytes() < work && Instant::now() < end {
            std::thread::yield_now();
        }
        assert!(work >= 20_000_000);
        assert_eq!(sink.bytes(), work);
        assert!(flow.probe().is_some(), "a round trip is known");
    }

    #[test]
    fn a_given_rate_is_paced() {
        let (_sink, mut flow) = flow(|o| o.link_bits_per_s = Some(80e6));
        flow.set_intensity(Intensity::new(50.0).unwrap());
        let start = Instant::now();
        let mut work = 0;
        while start.elapsed() < Duration::from_secs(2) {
            work += flow.burst().unwrap();
        }
        let rate = work as f64 / start.elapsed().as_secs_f64();
        assert!(rate < 5e6 * 1.2, "more than half of 80 Mbit/s: {rate} bytes/s");
        assert!(rate > 5e6 * 0.5, "far less than half of 80 Mbit/s: {rate} bytes/s");
    }

    #[test]
    fn the_full_rate_is_learnt_while_arming() {
        let (sink, _) = flow(|_| ());
        let options = NetworkOptions { flows: 1, ..NetworkOptions::default() };
        let mut flow = connect(sink.address(), &options, Some(Link::of(1).into())).unwrap();
        flow.prepare();
        assert!(flow.rate.unwrap() > 1e6, "{:?}", flow.rate);
        assert!(flow.notes().iter().any(|note| note.contains("learnt")), "{:?}", flow.notes());
    }

    #[test]
    fn half_of_loopback_is_half_of_what_it_takes_now() {
        let (sink, _) = flow(|_| ());
        let options = NetworkOptions { flows: 1, ..NetworkOptions::default() };
        let mut flow = connect(sink.address(), &options, Some(Link::of(1).into())).unwrap();
        flow.prepare();
        let mut rate_at = |percent: f64| {
            flow.set_intensity(Intensity::new(percent).unwrap());
            let (begun, mut bytes) = (Instant::now(), 0);
            while begun.elapsed() < Duration::from_millis(200) {
                bytes += flow.burst().unwrap();
            }
            bytes as f64 / begun.elapsed().as_secs_f64()
        };
        let mut shares: Vec<f64> = (0..9).map(|_| rate_at(100.0).recip() * rate_at(50.0)).collect();
        shares.sort_by(f64::total_cmp);
        assert!((0.3..0.75).contains(&shares[4]), "{shares:?}");
    }

    #[test]
    fn connects_again_when_the_peer_comes_back() {
        let (sink, mut flow) = flow(|_| ());
        let (address, end) = (sink.address(), Instant::now() + Duration::from_secs(30));
        while flow.burst().unwrap() == 0 && Instant::now() < end {}
        drop(sink);
        while flow.lost == 0 && Instant::now() < end {
            flow.burst().unwrap();
        }
        let _again = Sink::start(address, None).unwrap();
        let mut work = 0;
        while work == 0 && Instant::now() < end {
            work += flow.burst().unwrap();
        }
        assert!(work > 0 && flow.lost == 1);
        assert!(flow.notes().iter().any(|note| note.contains("lost 1 times")));
    }

    #[test]
    fn no_peer_and_no_such_congestion_control_are_errors() {
        let options = NetworkOptions::default();
        let nobody = connect("127.0.0.1:1".parse().unwrap(), &options, None).err().unwrap();
        assert!(nobody.to_string().contains("start a sink"), "{nobody}");
        let sink = Sink::start("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let odd = NetworkOptions { congestion: "quellnone".to_owned(), ..options };
        let refused = connect(sink.address(), &odd, None).err().unwrap();
        assert!(refused.to_string().contains("quellnone"), "{refused}");
    }
}
