import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/**
 * The java.util.concurrent peers. Reads lines "ROW AMOUNT" and answers each with
 * nanoseconds per operation; ends when its input ends. The amount is a number of
 * operations for rows with one thread, and microseconds for rows with two.
 */
public final class Peers {
    interface Row {
        double sample(long amount) throws Exception;
    }

    /** One side of a two-thread row: works until told to stop, returns its operations. */
    interface Side {
        long work() throws Exception;
    }

    /** The benchmark pins these two threads; it finds them by their names. */
    private static final ExecutorService[] FIGHTERS = {fighter("peer-0"), fighter("peer-1")};

    static volatile boolean stop;

    public static void main(String[] arguments) throws Exception {
        Map<String, Row> rows = new HashMap<>();
        rows.putAll(SyncPeers.rows());
        rows.putAll(QueuePeers.rows());
        rows.putAll(TasksPeers.rows());

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

    /** Runs both sides for so many microseconds: first begin to last end, per operation of both. */
    static double together(long microseconds, Side left, Side right) throws Exception {
        stop = false;
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
