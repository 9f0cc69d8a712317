(ns room
  "Who is here, and what was said. A client is a function that sends it a text.")

(def clients (atom []))
(def said (atom []))

(defn join [client]
  (swap! clients #(vec (take-last 2 (conj % client))))
  (run! client @said))

(defn leave [client]
  (swap! clients #(vec (remove #{client} %))))

(defn say [_ text]
  (swap! said conj text)
  (doseq [one @clients] (one text)))
