//! Collaborative filtering by stochastic gradient descent, written twice: as one would at first, and
//! sparing what it takes most of (B-E8). `cargo run --release --example filter -- before|after [EPOCHS]`.
//!
//! Both learn factors of users and items from the same made-up ratings, and print the error of what
//! they predict, the time of learning and the largest footprint.
//!
//! | spares | before | after |
//! |---|---|---|
//! | room in the shared cache, traffic to memory | ratings of 24 bytes, factors in `f64` | 3 bytes a rating, factors in `f32` |
//! | address translations, prefetchers | ratings in random order, each vector a heap block | ratings by user, factors in one block |
//! | floating-point units | one factor at a time | loops over arrays that the compiler makes vector code of |

use std::time::Instant;

const USERS: usize = 60_000;
const ITEMS: usize = 4_000;
const PER_USER: usize = 30;
const RANK: usize = 32;
const RATE: f64 = 0.01;
const PULL: f64 = 0.02;

fn main() {
    let mut words = std::env::args().skip(1);
    let which = words.next().unwrap_or_default();
    let epochs = words.next().and_then(|word| word.parse().ok()).unwrap_or(3);
    let begun = Instant::now();
    let error = match which.as_str() {
        "before" => before(epochs),
        "after" => after(epochs),
        _ => {
            eprintln!("give before or after");
            std::process::exit(2);
        }
    };
    let (seconds, mib) = (begun.elapsed().as_secs_f64(), peak_mib());
    println!("{which}: error {error:.4} after {epochs} epochs, {seconds:.2} s, {mib:.1} MiB");
}

/// The largest footprint of this process so far.
fn peak_mib() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches("kB").trim().parse::<f64>().unwrap_or(f64::NAN) / 1024.0
}

/// A number from 0 on below `bound`, the same for the same place.
fn made_up(place: usize, bound: usize) -> usize {
    let mut z = (place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((u128::from(z ^ (z >> 31)) * bound as u128) >> 64) as usize
}

/// The item and the rating in half stars, 1 to 10, of a user's n-th rating: tastes of 16 kinds that
/// items fit more or less.
fn rating(user: usize, n: usize) -> (usize, u8) {
    let place = user * PER_USER + n;
    let item = made_up(place, ITEMS);
    let fit = (user % 16 * 7 + item * 3) % 16;
    (item, (1 + (fit * 8 / 15) + made_up(place ^ 0xabcd_ef00, 2)) as u8)
}

fn first_factor(place: usize) -> f64 {
    made_up(place + 77, 1000) as f64 / 5000.0
}

struct Rating {
    user: usize,
    item: usize,
    stars: f64,
}

fn before(epochs: usize) -> f64 {
    let mut ratings: Vec<Rating> = Vec::new();
    for place in 0..USERS * PER_USER {
        let (user, n) = (place / PER_USER, place % PER_USER);
        let (item, halves) = rating(user, n);
        ratings.push(Rating { user, item, stars: f64::from(halves) / 2.0 });
    }
    // As they came in, from all users at once.
    for i in (1..ratings.len()).rev() {
        ratings.swap(i, made_up(i, i + 1));
    }
    let vector = |first: usize| (0..RANK).map(|k| first_factor(first + k)).collect::<Vec<f64>>();
    let mut users: Vec<Vec<f64>> = (0..USERS).map(|u| vector(u * RANK)).collect();
    let mut items: Vec<Vec<f64>> = (0..ITEMS).map(|i| vector((USERS + i) * RANK)).collect();
    let mut error = 0.0;
    for _ in 0..epochs {
        error = 0.0;
        for rating in &ratings {
            let mut said = 0.0;
            for k in 0..RANK {
                said += users[rating.user][k] * items[rating.item][k];
            }
            let off = rating.stars - said;
            error += off * off;
            for k in 0..RANK {
                let (p, q) = (users[rating.user][k], items[rating.item][k]);
                users[rating.user][k] += RATE * (off * q - PULL * p);
                items[rating.item][k] += RATE * (off * p - PULL * q);
            }
        }
    }
    (error / ratings.len() as f64).sqrt()
}

fn after(epochs: usize) -> f64 {
    let mut items_rated: Vec<u16> = Vec::with_capacity(USERS * PER_USER);
    let mut halves: Vec<u8> = Vec::with_capacity(USERS * PER_USER);
    for place in 0..USERS * PER_USER {
        let (item, stars) = rating(place / PER_USER, place % PER_USER);
        items_rated.push(item as u16);
        halves.push(stars);
    }
    let vector = |i: usize| std::array::from_fn(|k| first_factor(i * RANK + k) as f32);
    let mut users: Vec<[f32; RANK]> = (0..USERS).map(vector).collect();
    let mut items: Vec<[f32; RANK]> = (0..ITEMS).map(|i| vector(USERS + i)).collect();
    let mut error = 0.0;
    for _ in 0..epochs {
        error = 0.0;
        for (u, user) in users.iter_mut().enumerate() {
            let here = u * PER_USER..(u + 1) * PER_USER;
            for (item, stars) in items_rated[here.clone()].iter().zip(&halves[here]) {
                error += learn(user, &mut items[usize::from(*item)], f32::from(*stars) / 2.0);
            }
        }
    }
    (error / (USERS * PER_USER) as f64).sqrt()
}

/// One step for one rating; gives the squared error before it. Eight sums side by side, so that no
/// addition waits for the one before.
fn learn(user: &mut [f32; RANK], item: &mut [f32; RANK], stars: f32) -> f64 {
    let mut sums = [0.0f32; 8];
    for (p, q) in user.chunks_exact(8).zip(item.chunks_exact(8)) {
        for k in 0..8 {
            sums[k] += p[k] * q[k];
        }
    }
    let off = stars - sums.iter().sum::<f32>();
    let (rate, pull) = (RATE as f32, PULL as f32);
    for (p, q) in user.iter_mut().zip(item.iter_mut()) {
        let (was_p, was_q) = (*p, *q);
        *p += rate * (off * was_q - pull * was_p);
        *q += rate * (off * was_p - pull * was_q);
    }
    f64::from(off) * f64::from(off)
}
