//! A hospital's emergency room: doctors are threads, patients arrive with a severity. The most severe
//! case comes next, equally severe ones in the order of arrival, and nobody is interrupted in the middle
//! of a treatment. Every sixth time a doctor is free, the one who has waited longest is seen. A doctor
//! who waits for the only X-ray machine, in the middle of a treatment, waits: there are never more patients
//! in treatment than doctors.
//!
//! `cargo run --release -p semaforo --example triage`

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use semaforo::tasks::{BuildError, Handle, Length, Mode, Pool, when_all};

/// The only X-ray machine.
type XRay = semaforo::Mutex<()>;

/// How bad it is; the worst is seen first. The order is the level in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Severity {
    Resuscitation,
    Emergent,
    Urgent,
    LessUrgent,
    NotUrgent,
}

use Severity::{Emergent, LessUrgent, NotUrgent, Resuscitation, Urgent};

impl Severity {
    const LEVELS: u32 = NotUrgent as u32 + 1;
}

/// What the ward's book says of one treatment.
#[derive(Clone, Debug)]
struct Treatment {
    patient: &'static str,
    severity: Severity,
    doctor: String,
}

struct EmergencyRoom {
    doctors: Pool,
    book: Arc<Mutex<Vec<Treatment>>>,
}

impl EmergencyRoom {
    /// A room with so many doctors, who look after the longest waiting patient every so many times.
    fn new(doctors: usize, patience: Option<u32>) -> Result<Self, BuildError> {
        let builder = Pool::builder().threads(doctors).name("doctor").levels(Severity::LEVELS);
        let builder = builder.mode(Mode::Strict);
        let builder = match patience {
            None => builder,
            Some(picks) => builder.aging(picks),
        };
        Ok(Self { doctors: builder.build()?, book: Arc::default() })
    }

    /// Somebody comes in, and waits for a doctor; `treat` is what that one will do.
    fn arrive(
        &self,
        patient: &'static str,
        severity: Severity,
        treat: impl FnOnce() + Send + 'static,
    ) -> Handle<()> {
        let book = Arc::clone(&self.book);
        self.doctors.at(severity as u32).label(patient).spawn(move || {
            let doctor = thread::current().name().unwrap_or("?").to_string();
            book.lock().unwrap().push(Treatment { patient, severity, doctor });
            treat();
        })
    }

    fn treated(&self) -> Vec<Treatment> {
        self.book.lock().unwrap().clone()
    }
}

const ARRIVALS: [(&str, Severity); 14] = [
    ("Ana, a cold", NotUrgent),
    ("Bruno, a sprained ankle", LessUrgent),
    ("Clara, chest pain", Emergent),
    ("Duarte, a cut finger", LessUrgent),
    ("Eva, no pulse", Resuscitation),
    ("Filipe, a high fever", Urgent),
    ("Graça, an asthma attack", Emergent),
    ("Hugo, a sick note", NotUrgent),
    ("Inês, a broken arm", Urgent),
    ("João, an allergic shock", Resuscitation),
    ("Luísa, a burn", Urgent),
    ("Manuel, a stroke", Emergent),
    ("Nuno, an ear ache", LessUrgent),
    ("Olga, a deep cut", Urgent),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let room = EmergencyRoom::new(2, Some(6))?;
    let x_ray = Arc::new(XRay::new(()));
    let treatment = || {
        let x_ray = Arc::clone(&x_ray);
        move || {
            let picture = x_ray.lock().wait();
            thread::sleep(Duration::from_millis(15));
            drop(picture);
            thread::sleep(Duration::from_millis(25));
        }
    };

    println!("Two doctors; all patients arrive at about the same time:");
    let patients = ARRIVALS.map(|(patient, severity)| room.arrive(patient, severity, treatment()));
    for waiting in room.doctors.scheduled() {
        let patient = waiting.label.as_deref().unwrap_or("?");
        println!(
            "  waits: {patient:26} severity {}, {} so far",
            waiting.level,
            Length(waiting.age)
        );
    }
    when_all(patients).wait()?;

    println!("They were seen in this order:");
    for (place, Treatment { patient, severity, doctor }) in (1..).zip(room.treated()) {
        println!("  {place:2}. {patient:26} {:14} by {doctor}", format!("{severity:?}"));
    }
    let metrics = room.doctors.metrics();
    println!("Half of them waited less than, by severity:");
    for (level, of_level) in metrics.levels.iter().enumerate() {
        println!("  {level}: {} ({} patients)", of_level.waits.quantile(0.5), of_level.picked);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use semaforo::Event;

    /// One doctor, busy until told otherwise, so that all others wait.
    fn busy_room(patience: Option<u32>) -> (EmergencyRoom, Arc<Event>, Handle<()>) {
        let room = EmergencyRoom::new(1, patience).unwrap();
        let (begun, go) = (Arc::new(Event::new()), Arc::new(Event::new()));
        let first = room.arrive("first", NotUrgent, {
            let (begun, go) = (Arc::clone(&begun), Arc::clone(&go));
            move || {
                begun.set();
                // Not a wait that the pool knows of: no other doctor comes.
                while !go.is_set() {
                    thread::yield_now();
                }
            }
        });
        begun.happened().wait();
        (room, go, first)
    }

    #[test]
    fn the_worst_comes_first_and_equals_in_order() {
        let (room, go, first) = busy_room(None);
        let mut patients: Vec<_> = ARRIVALS
            .into_iter()
            .map(|(name, severity)| room.arrive(name, severity, || ()))
            .collect();
        patients.push(first);
        go.set();
        when_all(patients).wait().unwrap();

        let mut expected = ARRIVALS.to_vec();
        expected.sort_by_key(|(_, severity)| *severity);
        let seen: Vec<_> =
            room.treated().iter().skip(1).map(|seen| (seen.patient, seen.severity)).collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn nobody_is_interrupted() {
        let (room, go, first) = busy_room(None);
        let worse = room.arrive("worse", Resuscitation, || ());
        assert!(!worse.is_finished() && !first.is_finished());
        assert_eq!(room.treated().len(), 1);
        go.set();
        first.wait().unwrap();
        worse.wait().unwrap();
    }

    #[test]
    fn a_doctor_who_waits_for_the_x_ray_sees_nobody_else() {
        let room = EmergencyRoom::new(2, None).unwrap();
        let x_ray = Arc::new(XRay::new(()));
        let occupied = x_ray.lock().wait();
        let patients: Vec<_> = (0..6)
            .map(|_| {
                let x_ray = Arc::clone(&x_ray);
                room.arrive("a broken arm", Urgent, move || drop(x_ray.lock().wait()))
            })
            .collect();
        while room.doctors.metrics().waiting < 2 {
            thread::yield_now();
        }
        assert_eq!((room.treated().len(), x_ray.waiters()), (2, 2));
        assert_eq!(room.doctors.scheduled().len(), 4);
        drop(occupied);
        when_all(patients).wait().unwrap();
        assert_eq!(room.treated().len(), 6);
    }

    #[test]
    fn the_longest_waiting_is_seen_before_all_of_an_endless_row_of_worse_ones() {
        let (room, go, first) = busy_room(Some(3));
        let cold = room.arrive("a cold", NotUrgent, || ());
        let worse: Vec<_> = (0..10).map(|_| room.arrive("worse", Emergent, || ())).collect();
        go.set();
        when_all(worse.into_iter().chain([cold, first])).wait().unwrap();
        let place = room.treated().iter().position(|seen| seen.patient == "a cold").unwrap();
        assert!(place <= 4, "seen at place {place}");
    }
}
