//! Shared by the tests that shape a real link in namespaces of their own.

use quell_egress::lab::{LINK, Lab, WireSpec};
use quell_egress::route::{QdiscInfo, Route};
use quell_egress::{Netns, Shaper, ShaperSpec, Takeover, Tuning};
use quell_types::{BytesPerSecond, Tenant};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Payload of a full packet over its Ethernet frame.
pub(crate) const PAYLOAD_SHARE: f64 = 1448.0 / 1514.0;

pub(crate) fn mbit(megabits: f64) -> BytesPerSecond {
    BytesPerSecond::from_bits(megabits * 1e6)
}

/// Two namespaces and the link between them. One lab at a time: five would fight for two CPUs.
pub(crate) fn lab() -> AloneInLab {
    static TAKEN: Mutex<()> = Mutex::new(());
    let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let lab = Lab::build(&WireSpec::fast_ethernet())
        .expect("these tests need root, veth, bridge and TBF");
    AloneInLab { lab, _taken: taken }
}

/// A lab that no other test of this binary disturbs. Fields are dropped in this order.
pub(crate) struct AloneInLab {
    lab: Lab,
    _taken: MutexGuard<'static, ()>,
}

impl std::ops::Deref for AloneInLab {
    type Target = Lab;

    fn deref(&self) -> &Lab {
        &self.lab
    }
}

/// Two batch tenants `a` and `b` on the lab's 100 Mbit/s link.
pub(crate) fn spec(lab: &Lab) -> ShaperSpec {
    ShaperSpec {
        link: LINK.into(),
        netns: lab.near().path().map(Into::into),
        capacity: mbit(100.0),
        tenants: vec![tenant("a"), tenant("b")],
        tuning: Tuning::default(),
        takeover: Takeover::Refuse,
    }
}

pub(crate) fn tenant(name: &str) -> Tenant {
    Tenant::new(name)
}

pub(crate) fn installed(lab: &Lab) -> Shaper {
    let mut shaper = Shaper::open(spec(lab)).unwrap();
    shaper.install().unwrap();
    shaper
}

/// The near link's number and a conversation about it.
pub(crate) fn near(namespace: &Netns) -> (Route, u32) {
    let mut route = Route::open(namespace).unwrap();
    let index = route.link(LINK).unwrap().unwrap().index;
    (route, index)
}

pub(crate) fn root(namespace: &Netns) -> QdiscInfo {
    let (mut route, index) = near(namespace);
    route.root_qdisc(index).unwrap().unwrap()
}

/// The first value that `check` accepts; fails with the last one after a generous time.
pub(crate) fn eventually<T: std::fmt::Debug>(
    what: &str,
    mut look: impl FnMut() -> T,
    check: impl Fn(&T) -> bool,
) -> T {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let value = look();
        if check(&value) {
            return value;
        }
        assert!(Instant::now() < deadline, "{what}: still {value:?}");
    }
}

/// The mean rate in bytes per second at which a counter grows over half a second.
pub(crate) fn rate_of(read: impl Fn() -> u64) -> f64 {
    let (begin, before) = (Instant::now(), read());
    std::thread::sleep(Duration::from_millis(500));
    (read() - before) as f64 / begin.elapsed().as_secs_f64()
}

pub(crate) fn near_to(value: f64, wanted: f64, tolerance: f64) -> bool {
    (value / wanted - 1.0).abs() <= tolerance
}
