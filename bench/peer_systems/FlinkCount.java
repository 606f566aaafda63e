import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/**
 * The keyed count in Java Flink, in one process with one task manager: no network between subtasks,
 * the most favourable way to run it on one machine. Says "measuring" and "measured" on standard
 * error and prints one JSON line last.
 *
 * <p>Arguments: state backend, keys, parallelism, checkpoint interval, warm-up and measured time in
 * seconds, managed memory, checkpoint directory.
 */
public final class FlinkCount {
    private static final int PUBLISH_EVERY = 1024;
    private static final int CACHE_LINE_LONGS = 16;
    private static final AtomicLong CHECKPOINTS = new AtomicLong();
    private static AtomicLongArray counted;

    /** Counts the records of every key; emits one result in a million. */
    private static final class Count extends KeyedProcessFunction<Long, Long, Long>
            implements CheckpointListener {
        private transient ValueState<Long> state;
        private transient int counter;
        private transient long seen;

        @Override
        public void open(OpenContext context) {
            state = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
            counter =
                    getRuntimeContext().getTaskInfo().getIndexOfThisSubtask() * CACHE_LINE_LONGS;
        }

        @Override
        public void processElement(Long value, Context context, Collector<Long> out)
                throws Exception {
            Long before = state.value();
            long count = before == null ? 1 : before + 1;
            state.update(count);
            if (count % 1_000_000 == 0) {
                out.collect(count);
            }
            if (++seen % PUBLISH_EVERY == 0) {
                counted.lazySet(counter, seen);
            }
        }

        @Override
        public void notifyCheckpointComplete(long checkpointId) {
            CHECKPOINTS.accumulateAndGet(checkpointId, Math::max);
        }
    }

    private static long total() {
        long sum = 0;
        for (int i = 0; i < counted.length(); i += CACHE_LINE_LONGS) {
            sum += counted.get(i);
        }
        return sum;
    }

    public static void main(String[] args) throws Exception {
        String backend = args[0];
        long keys = Long.parseLong(args[1]);
        int parallelism = Integer.parseInt(args[2]);
        long warmupMs = (long) (Double.parseDouble(args[4]) * 1000);
        long measuredMs = (long) (Double.parseDouble(args[5]) * 1000);
        counted = new AtomicLongArray(parallelism * CACHE_LINE_LONGS);
        Configuration options =
                Configuration.fromMap(
                        Map.of(
                                "state.backend.type", backend,
                                "execution.checkpointing.incremental", "true",
                                "execution.checkpointing.interval", args[3] + " s",
                                "execution.checkpointing.dir", Path.of(args[7]).toUri().toString(),
                                "taskmanager.memory.managed.size", args[6],
                                "pipeline.object-reuse", "true",
                                "rest.port", "0"));
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.getExecutionEnvironment(options);
        env.setParallelism(parallelism);
        env.setMaxParallelism(128);
        env.fromSource(
                        new NumberSequenceSource(0, Long.MAX_VALUE / 2),
                        WatermarkStrategy.noWatermarks(),
                        "numbers")
                .keyBy(value -> Math.floorMod(value * 2654435761L, keys), Types.LONG)
                .process(new Count())
                .uid("count")
                .sinkTo(new DiscardingSink<>());
        JobClient job = env.executeAsync("keyed-count");
        while (total() == 0) {
            if (job.getJobStatus().get().isGloballyTerminalState()) {
                job.getJobExecutionResult().get();
            }
            Thread.sleep(20);
        }
        Thread.sleep(warmupMs);
        System.err.println("measuring");
        long startNs = System.nanoTime();
        long start = total();
        long startCheckpoints = CHECKPOINTS.get();
        Thread.sleep(measuredMs);
        double seconds = (System.nanoTime() - startNs) / 1e9;
        long events = total() - start;
        long checkpoints = CHECKPOINTS.get() - startCheckpoints;
        System.err.println("measured");
        System.out.printf(
                "{\"events_per_s\": %.0f, \"seconds\": %.1f, \"checkpoints\": %d}%n",
                events / seconds, seconds, checkpoints);
        job.cancel().get();
        System.exit(0);
    }
}
