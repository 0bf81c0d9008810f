import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/** The peers of the sync rows. */
final class SyncPeers {
    private static final int WRITE_EVERY = 20;

    private static volatile boolean last;

    static Map<String, Peers.Row> rows() {
        Semaphore nonfair = new Semaphore(1, false);
        Semaphore fair = new Semaphore(1, true);
        Semaphore there = new Semaphore(0, false);
        Semaphore back = new Semaphore(0, false);
        ReentrantReadWriteLock lock = new ReentrantReadWriteLock(true);
        return Map.of(
            "semaphore", operations -> acquireAndRelease(nonfair, operations),
            "semaphore-fair", operations -> acquireAndRelease(fair, operations),
            "ping-pong", length -> pingPong(there, back, length),
            "fight-fair", length -> Peers.together(length, () -> fight(fair), () -> fight(fair)),
            "rwlock-fair", length -> Peers.together(length, () -> mostlyRead(lock, 0), () -> mostlyRead(lock, 7)));
    }

    private static double acquireAndRelease(Semaphore semaphore, long operations) throws Exception {
        long begin = System.nanoTime();
        for (long done = 0; done < operations; done++) {
            semaphore.acquire();
            semaphore.release();
        }
        return (System.nanoTime() - begin) / (double) operations;
    }

    private static long fight(Semaphore semaphore) throws Exception {
        long done = 0;
        do {
            semaphore.acquire();
            semaphore.release();
            done++;
        } while (!Peers.stop);
        return done;
    }

    private static long mostlyRead(ReentrantReadWriteLock lock, long firstTurn) {
        long turn = firstTurn;
        do {
            var side = turn % WRITE_EVERY == WRITE_EVERY - 1 ? lock.writeLock() : lock.readLock();
            side.lock();
            side.unlock();
            turn++;
        } while (!Peers.stop);
        return turn - firstTurn;
    }

    private static double pingPong(Semaphore there, Semaphore back, long length) throws Exception {
        last = false;
        return Peers.together(length, () -> serve(there, back), () -> answer(there, back));
    }

    private static long serve(Semaphore there, Semaphore back) throws Exception {
        long trips = 0;
        do {
            there.release();
            back.acquire();
            trips += 2;
        } while (!Peers.stop);
        last = true;
        there.release();
        return trips;
    }

    private static long answer(Semaphore there, Semaphore back) throws Exception {
        there.acquire();
        while (!last) {
            back.release();
            there.acquire();
        }
        return 0;
    }
}
