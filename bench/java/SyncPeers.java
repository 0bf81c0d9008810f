import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/**
 * The java.util.concurrent peers of the sync rows. Reads lines "ROW AMOUNT" and
 * answers each with nanoseconds per operation; ends when its input ends. The
 * amount is a number of operations for rows with one thread, and microseconds
 * for rows with two.
 */
public final class SyncPeers {
    private interface Row {
        double sample(long amount) throws Exception;
    }

    /** One side of a two-thread row: works until told to stop, returns its operations. */
    private interface Side {
        long work() throws Exception;
    }

    private static final int WRITE_EVERY = 20;

    /** The benchmark pins these two threads; it finds them by their names. */
    private static final ExecutorService[] FIGHTERS = {fighter("peer-0"), fighter("peer-1")};

    private static volatile boolean stop;
    private static volatile boolean last;

    public static void main(String[] arguments) throws Exception {
        Semaphore nonfair = new Semaphore(1, false);
        Semaphore fair = new Semaphore(1, true);
        Semaphore there = new Semaphore(0, false);
        Semaphore back = new Semaphore(0, false);
        ReentrantReadWriteLock lock = new ReentrantReadWriteLock(true);
        Map<String, Row> rows = Map.of(
            "semaphore", operations -> acquireAndRelease(nonfair, operations),
            "semaphore-fair", operations -> acquireAndRelease(fair, operations),
            "ping-pong", length -> together(length, () -> serve(there, back), () -> answer(there, back)),
            "fight-fair", length -> together(length, () -> fight(fair), () -> fight(fair)),
            "rwlock-fair", length -> together(length, () -> mostlyRead(lock, 0), () -> mostlyRead(lock, 7)));

        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = requests.readLine()) != null; ) {
            String[] words = line.split(" ");
            System.out.println(rows.get(words[0]).sample(Long.parseLong(words[1])));
            System.out.flush();
        }
        for (ExecutorService fighter : FIGHTERS) {
            fighter.shutdown();
        }
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
        } while (!stop);
        return done;
    }

    private static long mostlyRead(ReentrantReadWriteLock lock, long firstTurn) {
        long turn = firstTurn;
        do {
            var side = turn % WRITE_EVERY == WRITE_EVERY - 1 ? lock.writeLock() : lock.readLock();
            side.lock();
            side.unlock();
            turn++;
        } while (!stop);
        return turn - firstTurn;
    }

    private static long serve(Semaphore there, Semaphore back) throws Exception {
        long trips = 0;
        do {
            there.release();
            back.acquire();
            trips += 2;
        } while (!stop);
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

    /** Runs both sides for so many microseconds: first begin to last end, per operation of both. */
    private static double together(long microseconds, Side left, Side right) throws Exception {
        stop = false;
        last = false;
        CyclicBarrier start = new CyclicBarrier(2);
        Future<long[]> first = FIGHTERS[0].submit(() -> stint(start, left));
        Future<long[]> second = FIGHTERS[1].submit(() -> stint(start, right));
        TimeUnit.MICROSECONDS.sleep(microseconds);
        stop = true;
        long[] one = first.get();
        long[] two = second.get();
        return (Math.max(one[1], two[1]) - Math.min(one[0], two[0])) / (double) (one[2] + two[2]);
    }

    private static long[] stint(CyclicBarrier start, Side side) throws Exception {
        start.await();
        long begin = System.nanoTime();
        long operations = side.work();
        return new long[] {begin, System.nanoTime(), operations};
    }

    private static ExecutorService fighter(String name) {
        ExecutorService fighter = Executors.newSingleThreadExecutor(work -> new Thread(work, name));
        fighter.submit(() -> {});
        return fighter;
    }
}
