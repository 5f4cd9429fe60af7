//! Answers of libvirt: headers, errors, machines, parameters, CPU maps; what is written must read
//! back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_libvirt::fuzzing;

fuzz_target!(|data: &[u8]| {
    assert!(fuzzing::answers(data) <= 6);
    if let Some((list, written)) = fuzzing::domains(data) {
        assert_eq!(fuzzing::domains(&written).expect("what was written").0, list);
    }
    if let Some((list, written)) = fuzzing::parameters(data) {
        let (again, bytes) = fuzzing::parameters(&written).expect("what was written");
        // A fraction that is no number is not equal to itself, but its bytes are.
        assert_eq!((again.len(), bytes), (list.len(), written));
    }
    let _ = fuzzing::thread(&String::from_utf8_lossy(data));
});
