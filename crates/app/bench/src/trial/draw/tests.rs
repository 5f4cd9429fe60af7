//! Tests of what is drawn.

use super::work::INNOCENT;
use super::*;
use std::time::Duration;

#[test]
fn a_seed_draws_the_same_and_every_group_comes_to_be_the_culprit() {
    let much = Cast::of_kernels(Harm::Much, Taken::Memory);
    let drawn = |seed, number| Composition::draw(seed, number, &much, 9.0);
    assert_eq!(drawn(7, 3), drawn(7, 3));
    assert_ne!(drawn(7, 3), drawn(8, 3));
    for group in 0..USUAL_GROUPS {
        assert!((0..60).any(|number| drawn(1, number).culprit == Some(group)), "{group}");
    }
    let none = Cast::of_kernels(Harm::None, Taken::Cpu);
    for member in (0..60).flat_map(|number| Composition::draw(1, number, &none, 9.0).members) {
        let kernel = member.kernel().unwrap();
        assert!(INNOCENT.contains(&kernel.resource), "{kernel:?}");
        assert!((10.0..=60.0).contains(&kernel.intensity), "{kernel:?}");
    }
}

#[test]
fn who_takes_cpus_has_several_threads_and_everybody_else_one() {
    let much = Cast::of_kernels(Harm::Much, Taken::Cpu);
    let drawn = |number| Composition::draw(2, number, &much, 9.0);
    let mut counts = std::collections::BTreeSet::new();
    for composition in (0..60).map(drawn) {
        let culprit = composition.culprit.unwrap();
        for (index, member) in composition.members.iter().enumerate() {
            let kernel = member.kernel().unwrap();
            assert!(INNOCENT.contains(&kernel.resource), "{kernel:?}");
            assert!(index == culprit || kernel.threads == 1, "{kernel:?}");
        }
        counts.insert(composition.pressing().unwrap().threads);
    }
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), [2, 3, 4]);
    let on_many = Cast { cpus: 16, ..much.clone() };
    let many = (0..60).map(|number| Composition::draw(2, number, &on_many, 9.0));
    let threads = |drawn: Composition| drawn.pressing().unwrap().threads;
    let counts: std::collections::BTreeSet<u32> = many.map(threads).collect();
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), [16, 24, 32], "as many for each CPU");
    for (cpus, threads) in [(1, 1), (2, 1), (3, 1), (16, 8)] {
        let memory = Cast { cpus, ..Cast::of_kernels(Harm::Much, Taken::Memory) };
        let drawn = Composition::draw(2, 0, &memory, 9.0);
        assert_eq!(drawn.pressing().unwrap().threads, threads, "{cpus} CPUs");
    }
    let much = drawn(0);
    assert_eq!(much.pressing().unwrap().intensity, 100.0);
    assert_eq!("cpu".parse::<Taken>().unwrap().to_string(), "cpu");
    assert!("disk".parse::<Taken>().unwrap_err().contains("memory, cpu"));
}

#[test]
fn innocents_leave_room_and_nobody_wants_next_to_nothing() {
    for number in 0..60 {
        let much = Cast::of_kernels(Harm::Much, Taken::Cpu);
        let drawn = |room| Composition::draw(4, number, &much, room);
        let wants = |drawn: &Composition| -> Vec<f64> {
            let all = drawn.members.iter().enumerate();
            let innocent = all.filter(|(index, _)| Some(*index) != drawn.culprit);
            innocent.map(|(_, member)| member.kernel().unwrap().intensity).collect()
        };
        let (much, little, none) = (drawn(9.0), drawn(1.1), drawn(0.0));
        assert!(wants(&little).iter().sum::<f64>() <= 110.0, "{little:?}");
        assert!(wants(&little).iter().zip(wants(&much)).all(|(less, all)| *less <= all));
        assert_eq!(wants(&none), [10.0; 4], "{none:?}");
        assert_eq!(much.members[much.culprit.unwrap()], none.members[none.culprit.unwrap()]);
    }
}

#[test]
fn a_duty_that_is_found_is_that_of_the_culprit_alone() {
    let before = Composition::draw(2, 0, &Cast::of_kernels(Harm::Little, Taken::Cpu), 9.0);
    let mut drawn = before.clone();
    drawn.turn_to(Duty::new(Taken::Cpu, 2.04));
    let culprit = drawn.culprit.unwrap();
    assert!(drawn.members[culprit].in_words().contains(" 2 x "), "{drawn:?}");
    assert_eq!(drawn.pressing().unwrap().slice, Some(Duration::from_millis(25)));
    drawn.members[culprit] = before.members[culprit].clone();
    assert_eq!(drawn, before);
}

#[test]
fn a_duty_stays_where_turns_are_short_and_slices_are_taken() {
    let table = [(0.0, 0.5, 100_000), (2.46, 2.5, 20_000), (20.0, 20.0, 2500), (99.0, 45.0, 1111)];
    for (wanted, percent, slice_us) in table {
        let duty = Duty::new(Taken::Cpu, wanted);
        assert_eq!(duty.percent(), percent);
        assert_eq!(duty.slice().map(|slice| slice.as_micros()), Some(slice_us));
    }
    let all = Duty::new(Taken::Memory, 170.0);
    assert_eq!((all.percent(), all.slice()), (100.0, None));
}

#[test]
fn classes_are_read_and_keep_their_bounds() {
    let table = [
        ("none", None, true),
        ("none", Some(1.0), false),
        ("1.05..1.2", Some(1.1), true),
        ("1.05..1.2", Some(1.2), false),
        ("1.2..", Some(1.2), true),
        ("1.2..", Some(1.19), false),
    ];
    for (name, harm, counts) in table {
        let class: Harm = name.parse().unwrap();
        assert_eq!(class.to_string(), name);
        assert_eq!(class.refuses(harm).is_none(), counts, "{name} {harm:?}");
    }
    let unknown = Harm::Much.refuses(None).unwrap();
    assert!(unknown.contains("could not be measured"), "{unknown}");
    assert!("1.3..".parse::<Harm>().unwrap_err().contains("1.2.."));
}

#[test]
fn harm_counts_that_is_known_well_enough() {
    let table = [
        (Harm::Little, (1.0, 1.49), true),
        (Harm::Little, (1.0, 1.5), false),
        (Harm::Little, (0.9, 1.4), false),
        // A service whose latency scatters seems slower by chance as often as it seems faster.
        (Harm::Much, (1.0, 2.46), false),
        (Harm::Much, (1.005, 1.9), false),
        (Harm::Much, (1.02, 9.0), true),
        (Harm::None, (1.0, 1.0), true),
    ];
    for (class, interval, known) in table {
        assert_eq!(class.is_unknown(interval).is_none(), known, "{class} {interval:?}");
    }
}

#[test]
fn programs_are_read_as_a_shell_takes_words_apart_and_drawn_in_place_of_kernels() {
    let read = |text: &str| text.parse::<Program>();
    let quoted = read("sh -c 'gzip < /etc/passwd'").unwrap();
    assert_eq!(quoted.words(), ["sh", "-c", "gzip < /etc/passwd"]);
    assert_eq!(read(&quoted.to_string()).unwrap(), quoted);
    assert!(read("").unwrap_err().contains("give a program"));
    assert!(read("''").unwrap_err().contains("give a program"));
    assert!(read("sh -c 'x").unwrap_err().contains("not closed"));
    let (polluters, innocents) = (vec![read("p").unwrap()], vec![read("i").unwrap(), quoted]);
    let eleven =
        Cast { groups: 11, polluters, innocents, ..Cast::of_kernels(Harm::Much, Taken::Memory) };
    let drawn: Vec<Composition> = (0..60).map(|n| Composition::draw(1, n, &eleven, 0.5)).collect();
    let mut seen = std::collections::BTreeSet::new();
    for (composition, member) in drawn.iter().flat_map(|d| d.members.iter().map(move |m| (d, m))) {
        assert!(member.kernel().is_none(), "{member:?}");
        let guilty = composition.culprit() == Some(member.group.as_str());
        assert_eq!(member.in_words() == "p", guilty, "{member:?}");
        seen.insert(member.in_words());
    }
    assert_eq!((drawn[0].members.len(), seen.len()), (11, 3));
    assert_eq!(drawn[0].members[10].group, "k");
    assert!(drawn[0].pressing().is_none(), "nobody knows what it presses on");
}
