//! Published cells: T-5 and T-6 (tail latency beside an antagonist, % of that alone), and what is
//! public of T-25 (the tail alone at low load).

/// A simulated service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// TailBench's search.
    Xapian,
    /// TailBench's transactions in memory.
    Silo,
}

/// What runs beside the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    /// A sweep over so many percent of the last-level cache.
    Cache(u32),
    /// A sweep over a large array.
    Memory,
    /// Sums on the sibling threads.
    Sibling,
    /// A greedy sender, with the link in Mbit/s.
    Network(u32),
    /// Nobody: the cell is the tail itself, in microseconds.
    Nobody,
}

/// One published number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The table it stands in.
    pub table: &'static str,
    /// Its row.
    pub row: &'static str,
    /// Load in percent of the highest.
    pub load_percent: u32,
    /// Tail latency in % of that alone; of the row "alone", in microseconds.
    pub published: f64,
    /// Whether only a lower bound was published.
    pub at_least: bool,
    pub(crate) service: Service,
    pub(crate) beside: Beside,
}

impl Cell {
    /// What counts as right: 10 points, above 200 % 15 % (T-E1).
    #[must_use]
    pub fn tolerance(&self) -> f64 {
        match self.beside {
            Beside::Nobody => 0.2 * self.published,
            _ if self.published > 200.0 => 0.15 * self.published,
            _ => 10.0,
        }
    }

    /// How far a simulated value is off.
    #[must_use]
    pub fn error(&self, simulated: f64) -> f64 {
        let error = simulated - self.published;
        if self.at_least { error.min(0.0) } else { error }
    }
}

type Row = (&'static str, Beside, &'static [f64]);

const XAPIAN_LOADS: [u32; 5] = [20, 40, 60, 80, 100];
const XAPIAN: [Row; 8] = [
    ("LLC small", Beside::Cache(25), &[101.0, 104.0, 105.0, 105.0, 108.0]),
    ("LLC medium", Beside::Cache(50), &[102.0, 103.0, 105.0, 107.0, 108.0]),
    ("LLC big", Beside::Cache(100), &[115.0, 123.0, 130.0, 142.0, 164.0]),
    ("DRAM 1 GB", Beside::Memory, &[120.0, 123.0, 125.0, 132.0, 157.0]),
    ("DRAM 4 GB", Beside::Memory, &[124.0, 125.0, 128.0, 136.0, 161.0]),
    ("HyperThread", Beside::Sibling, &[138.0, 148.0, 176.0, 204.0, 323.0]),
    ("Network 100 Mb", Beside::Network(100), &[508.0, 473.0, 416.0, 350.0, 273.0]),
    ("Network 10 Gb", Beside::Network(10_000), &[112.0, 108.0, 106.0, 106.0, 106.0]),
];
const SILO_LOADS: [u32; 3] = [33, 66, 100];
const SILO: [Row; 4] = [
    ("LLC big", Beside::Cache(100), &[114.0, 111.0, 111.0]),
    ("DRAM 4 GB", Beside::Memory, &[115.0, 117.0, 115.0]),
    ("HyperThread", Beside::Sibling, &[90.0, 416.0, 1_000.0]),
    ("Network 10 Gb", Beside::Network(10_000), &[157.0, 144.0, 134.0]),
];

/// The cells on which a service's parameters are fitted.
pub(crate) fn cells(service: Service) -> Vec<Cell> {
    let (table, loads, rows): (_, &[u32], &[Row]) = match service {
        Service::Xapian => ("T-5", &XAPIAN_LOADS, &XAPIAN),
        Service::Silo => ("T-6", &SILO_LOADS, &SILO),
    };
    let of_row = |(row, beside, values): &Row| {
        let cell = |(load, published): (&u32, &f64)| Cell {
            table,
            row,
            load_percent: *load,
            published: *published,
            at_least: *published == 1_000.0,
            service,
            beside: *beside,
        };
        loads.iter().zip(*values).map(cell).collect::<Vec<_>>()
    };
    let mut all: Vec<Cell> = rows.iter().flat_map(of_row).collect();
    if service == Service::Xapian {
        all.push(Cell {
            table: "T-25",
            row: "alone (public: about 5 ms)",
            load_percent: 20,
            published: 5_000.0,
            at_least: false,
            service,
            beside: Beside::Nobody,
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guess::PARAMETERS;

    #[test]
    fn parameters_are_at_most_a_third_of_the_cells() {
        let all = cells(Service::Xapian).len() + cells(Service::Silo).len();
        assert_eq!(all, 53);
        assert!(3 * PARAMETERS.len() <= all, "{} parameters for {all} cells", PARAMETERS.len());
    }

    #[test]
    fn errors_of_lower_bounds_are_one_sided() {
        let bound = *cells(Service::Silo).iter().find(|c| c.at_least).unwrap();
        assert!(bound.error(5_000.0) >= 0.0 && bound.error(5_000.0) == 0.0);
        assert!(bound.error(800.0) < 0.0);
    }
}
