//! Netlink datagrams: links, qdiscs, classes and refusals; what is written must read back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_egress::fuzzing::{attributes, htb_class, message};
use quell_egress::route::{HtbClass, Record, decode};
use quell_fuzz::Numbers;

fuzz_target!(|data: &[u8]| {
    let records = decode(data);
    assert!(records.len() <= data.len() / 16 + 1);
    let mut numbers = Numbers(data);
    a_class_comes_back(&mut numbers);
    attributes_come_back(numbers);
});

fn a_class_comes_back(numbers: &mut Numbers<'_>) {
    let class = HtbClass {
        rate: numbers.u64(),
        ceil: numbers.u64(),
        burst: numbers.u32(),
        ceil_burst: numbers.u32(),
        quantum: numbers.u32(),
        priority: numbers.u32(),
    };
    let records = decode(&htb_class(&class));
    let [Record::Class(info)] = records.as_slice() else { panic!("{records:?}") };
    assert_eq!((info.rate, info.ceil), (Some(class.rate), Some(class.ceil)));
    assert_eq!((info.quantum, info.priority), (Some(class.quantum), Some(class.priority)));
}

fn attributes_come_back(mut numbers: Numbers<'_>) {
    let (kind, flags) = (numbers.u16(), numbers.u16());
    let mut parts = Vec::new();
    while !numbers.is_empty() {
        let kind = numbers.u16() & 0x3fff;
        let (data, rest) = numbers
            .0
            .split_at(usize::from(numbers.0.first().copied().unwrap_or(0)).min(numbers.0.len()));
        parts.push((kind, data));
        numbers = Numbers(rest);
    }
    let datagram = message(kind, flags, &[0; 20], &parts);
    let found = attributes(&datagram, 20).expect("a whole message");
    let found: Vec<(u16, &[u8])> =
        found.iter().map(|(kind, data)| (*kind, data.as_slice())).collect();
    assert_eq!(found, parts);
    let _ = decode(&datagram);
}
