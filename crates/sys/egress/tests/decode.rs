//! What the kernel answers is understood, whatever it is.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;
use quell_egress::route::{ClassInfo, Handle, Record, decode};

const LINKS: &[u8] = include_bytes!("../../../../fixtures/egress/links-veth.bin");
const QDISCS: &[u8] = include_bytes!("../../../../fixtures/egress/qdiscs-mq-htb.bin");
const CLASSES: &[u8] = include_bytes!("../../../../fixtures/egress/classes-htb.bin");
const REFUSED: &[u8] = include_bytes!("../../../../fixtures/egress/refused-with-text.bin");
const ABSENT: &[u8] = include_bytes!("../../../../fixtures/egress/refused-absent-link.bin");

fn classes() -> Vec<ClassInfo> {
    let class = |record| if let Record::Class(class) = record { Some(class) } else { None };
    decode(CLASSES).into_iter().filter_map(class).collect()
}

#[test]
fn links_have_their_kind_and_packet_sizes() {
    let links: Vec<_> = decode(LINKS)
        .into_iter()
        .filter_map(|record| if let Record::Link(link) = record { Some(link) } else { None })
        .collect();
    let find = |name: &str| links.iter().find(|l| l.name == name).unwrap();
    assert_eq!(find("lo").kind, None);
    let veth = find("quellb");
    assert_eq!((veth.kind.as_deref(), veth.qdisc.as_deref()), (Some("veth"), Some("htb")));
    assert_eq!((veth.mtu, veth.up), (1500, true));
    let limits = veth.segment_limits().unwrap();
    assert_eq!((limits.gso_bytes, limits.gso_ipv4_bytes), (65_536, Some(65_536)));
    assert_eq!(veth.default_segment_limits(), Some(limits));
}

#[test]
fn a_users_qdisc_is_told_from_the_kernels() {
    let qdiscs: Vec<_> = decode(QDISCS)
        .into_iter()
        .filter_map(|record| if let Record::Qdisc(qdisc) = record { Some(qdisc) } else { None })
        .collect();
    let root = |kind: &str| qdiscs.iter().find(|q| q.kind == kind && q.is_root()).unwrap();
    assert!(root("noqueue").is_kernel_default());
    assert!(!root("mq").is_kernel_default());
    assert_eq!(root("htb").handle().to_string(), "5155:");
    assert_eq!(root("htb").htb_default(), Some(0x10));
    let fifo = qdiscs.iter().find(|q| q.kind == "bfifo").unwrap();
    assert_eq!((fifo.fifo_limit(), Handle(fifo.parent)), (Some(225_000), Handle(0x5155_0100)));
}

#[test]
fn classes_have_rates_beyond_32_bits_and_counters() {
    let classes = classes();
    let find = |id: u32| classes.iter().find(|c| c.handle == id).unwrap();
    assert_eq!(find(0x5155_0001).rate, Some(12_500_000_000));
    assert_eq!(find(0x5155_0001).ceil, Some(12_500_000_000));
    let batch = find(0x5155_0100);
    assert_eq!((batch.rate, batch.ceil), (Some(1000), Some(11_250_000)));
    assert_eq!((batch.priority, batch.quantum), (Some(7), Some(3512)));
    assert_eq!(Handle(batch.parent).to_string(), "5155:1");
    assert_eq!(batch.stats.unwrap().bytes, 0);
}

#[test]
fn a_refusal_carries_the_kernels_words() {
    let [Record::Refused { errno, text }] = &decode(REFUSED)[..] else { panic!() };
    assert_eq!(*errno, 22);
    assert!(text.contains("handle"), "{text:?}");
    let [Record::Refused { errno, .. }] = &decode(ABSENT)[..] else { panic!() };
    assert_eq!(*errno, 19);
}

#[test]
fn a_cut_answer_is_answered() {
    // Cut the datagram behind each byte: what is left is read, never more, never a panic.
    let whole = classes().len();
    for length in 0..CLASSES.len() {
        let part = decode(&CLASSES[..length]);
        assert!(part.len() <= whole + 1);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(decode(&bytes).len() <= bytes.len() / 16 + 1);
    }

    #[test]
    fn any_damage_to_a_real_answer_is_answered(
        which in 0usize..4,
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = [LINKS, QDISCS, CLASSES, REFUSED][which].to_vec();
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        prop_assert!(decode(&bytes).len() <= bytes.len() / 16 + 1);
    }
}
